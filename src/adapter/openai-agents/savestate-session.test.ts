import {
  Agent,
  type AgentInputItem,
  MemorySession,
  type ModelRequest,
  Runner,
  type Session,
  type SessionHistoryTransactionArgs,
  tool,
} from '@openai/agents-core';
import { assistantMessage, functionCall, modelError, ScriptedModel } from '@openai/agents-core/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { drawn } from '../../../test/support/trials.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SavestateSession } from './index.ts';

const user = (text: string): AgentInputItem => ({ type: 'message', role: 'user', content: text });
const call = (callId: string, args = '{}'): Extract<AgentInputItem, { type: 'function_call' }> => ({
  type: 'function_call',
  callId,
  name: 'look_up',
  status: 'completed',
  arguments: args,
});
const runner = new Runner({ tracingDisabled: true });

/** Tools that count how often they run; `refund` needs a person. */
function shop() {
  const ran: string[] = [];
  const parameters = z.object({ order: z.string() });
  const make = (name: string, needsApproval: boolean) =>
    tool({
      name,
      description: name,
      parameters,
      needsApproval,
      execute: ({ order }) => {
        ran.push(`${name} ${order}`);
        return `${name} of ${order} done`;
      },
    });
  return { ran, lookUp: make('look_up', false), refund: make('refund', true) };
}

const script = () => [
  [functionCall('look_up', { order: '1042' }, { callId: 'call-1' })],
  [functionCall('look_up', { order: '1043' }, { callId: 'call-2' })],
  [assistantMessage('They left yesterday.')],
];

describeOn(STORAGES)('a session in %s', (_, create) => {
  test('a run saves what it saves to a MemorySession, and the next one goes on from it', async () => {
    const { storage, reopen } = create();
    const talk = async (open: () => Session) => {
      const { lookUp } = shop();
      const model = new ScriptedModel([...script(), [assistantMessage('You are welcome.')]]);
      const agent = new Agent({ name: 'desk', model, tools: [lookUp] });
      await runner.run(agent, 'Where are my orders?', { session: open() });
      await runner.run(agent, 'Thank you', { session: open() });
      return { items: await open().getItems(), asked: model.lastCall?.request.input };
    };
    const memory = new MemorySession();
    const expected = await talk(() => memory);
    const found = await talk(() => new SavestateSession(reopen?.() ?? storage, 'order-1042'));
    expect(found).toEqual(expected);
    expect(found.items).toHaveLength(8);
  });

  test('transactions, mutations, compaction, pop and clear are those of a MemorySession', async () => {
    const { storage } = create();
    const ours = new SavestateSession(storage, 's');
    const oracle = new MemorySession({ sessionId: 's' });
    const apply = async (work: (session: MemorySession | SavestateSession) => Promise<unknown>) => {
      const outcomes = [];
      for (const session of [ours, oracle])
        outcomes.push(
          await work(session).then(
            (value) => ({ value }),
            () => 'refused',
          ),
        );
      expect(outcomes[0]).toEqual(outcomes[1]);
      expect(await ours.getItems()).toEqual(await oracle.getItems());
    };
    const transact = (operationId: string, transaction: SessionHistoryTransactionArgs['transaction']) =>
      apply((session) => session.applyHistoryTransaction({ operationId, transaction }));
    const append = { type: 'append_items' as const, items: [user('a'), call('1'), call('2'), call('1', '{"x":1}')] };
    await transact('op 1', append);
    await transact('op 1', append);
    await transact('op 1', { ...append, items: [user('b')] });
    await transact('', append);
    await transact('op 2', { type: 'replace_suffix', expectedSuffix: [user('zzz')], replacement: [] });
    const replace = {
      type: 'replace_suffix' as const,
      expectedSuffix: [call('2'), call('1', '{"x":1}')],
      replacement: [user('c'), call('1', '{"y":1}')],
    };
    await transact('op 2', replace);
    await transact('op 2', replace);
    await transact('op 3', { type: 'other' } as never);
    const replacement = call('1', '{"order":"2"}');
    const mutations = [{ type: 'replace_function_call' as const, callId: '1', replacement }];
    await apply((session) => session.applyHistoryMutations({ mutations }));
    await apply((session) => session.applyHistoryMutations({ mutations: [] }));
    await apply((session) => session.getItems(2));
    await apply((session) => session.popItem());
    await apply((session) => session.getSessionId());
    await apply((session) => session.clearSession());
    await apply((session) => session.popItem());
    await ours.addItems([user('old'), user('older')]);
    await ours.replaceHistoryWithCompaction([user('short')]);
    expect(await ours.getItems()).toEqual([user('short')]);
  });

  test('a run that died goes on: no answer is asked for and no tool runs twice', async () => {
    const { storage, reopen } = create();
    const { ran, lookUp } = shop();
    const attempt = async (model: ScriptedModel, open: ChunkStorage) => {
      const session = new SavestateSession(open, 'order-1042');
      const agent = new Agent({
        name: 'desk',
        model: session.recordedModel(model),
        tools: [session.recordedTool(lookUp)],
      });
      return runner.run(agent, 'Where are my orders?', { session });
    };
    const [first, second, last] = script();
    const broken = new ScriptedModel([first ?? [], second ?? [], modelError(new Error('the line is cut'))]);
    await expect(attempt(broken, storage)).rejects.toThrow('the line is cut');
    expect(ran).toEqual(['look_up 1042', 'look_up 1043']);
    expect(await new SavestateSession(storage, 'order-1042').getItems()).toEqual([]);
    const fixed = new ScriptedModel([last ?? []]);
    const { finalOutput, rawResponses } = await attempt(fixed, reopen?.() ?? storage);
    expect(finalOutput).toBe('They left yesterday.');
    expect(rawResponses.map(({ usage }) => usage.requests)).toEqual([1, 1, 1]);
    expect(ran).toHaveLength(2);
    fixed.assertComplete();
    expect(await new SavestateSession(storage, 'order-1042').getItems()).toHaveLength(6);
    const manager = new CheckpointManager({ storage });
    expect((await manager.verify()).findings).toEqual([]);
  });

  test('an approval waits in the session; anybody answers, once; the run goes on elsewhere', async () => {
    const { storage, reopen } = create();
    const { ran, refund } = shop();
    const open = () => {
      const session = new SavestateSession(reopen?.() ?? storage, 'order-7');
      const model = new ScriptedModel([
        [
          functionCall('refund', { order: '7' }, { callId: 'call-7' }),
          functionCall('refund', { order: '8' }, { callId: 'call-8' }),
        ],
        [assistantMessage('Paid back.')],
      ]);
      const agent = new Agent({
        name: 'desk',
        model: session.recordedModel(model),
        tools: [session.recordedTool(refund)],
      });
      return { session, agent };
    };
    const asking = open();
    const stopped = await runner.run(asking.agent, 'I want my money back', { session: asking.session });
    expect(await asking.session.suspend(stopped.state)).toHaveLength(2);

    const desk = new SavestateSession(storage, 'order-7');
    expect(await desk.pending()).toEqual([
      { callId: 'call-7', tool: 'refund', arguments: '{"order":"7"}', agent: 'desk' },
      { callId: 'call-8', tool: 'refund', arguments: '{"order":"8"}', agent: 'desk' },
    ]);
    await desk.answer('call-7', { approve: true, by: 'ann' });
    await desk.answer('call-8', { approve: false, message: 'Too late.' });
    await desk.answer('call-7', { approve: true, by: 'ann' });
    await expect(desk.answer('call-7', { approve: false })).rejects.toThrow('Call call-7 was approved already by ann.');
    await expect(desk.answer('call-9', { approve: true })).rejects.toThrow('(there is: call-7, call-8)');
    expect(await desk.pending()).toEqual([]);

    const going = open();
    const model = new ScriptedModel([[assistantMessage('Paid back.')]]);
    const agent = going.agent.clone({ model: going.session.recordedModel(model) });
    const done = await runner.run(agent, await going.session.resume(agent), { session: going.session });
    expect(done.finalOutput).toBe('Paid back.');
    expect(ran).toEqual(['refund 7']);
    expect(JSON.stringify(model.lastCall?.request.input)).toContain('Too late.');
    expect(await going.session.getItems()).toHaveLength(6);
    await expect(going.session.resume(agent)).rejects.toThrow('has no suspended run');
  });
});

test('an approved run that dies and is resumed again adds what its tools returned once', async () => {
  const storage = new InMemoryCheckpointStorage();
  const { ran, lookUp, refund } = shop();
  const attempt = async (script: ConstructorParameters<typeof ScriptedModel>[0], input?: string) => {
    const session = new SavestateSession(storage, 'order-7');
    const model = session.recordedModel(new ScriptedModel(script));
    const agent = new Agent({ name: 'desk', model, tools: [lookUp, refund].map((one) => session.recordedTool(one)) });
    const run = runner.run(agent, input ?? (await session.resume(agent)), { session });
    return { session, result: await run.catch((error: unknown) => error) };
  };
  const asked = [functionCall('refund', { order: '7' }, { callId: 'call-7' })];
  const { session, result } = await attempt([asked], 'I want my money back');
  await session.suspend((result as Awaited<ReturnType<typeof runner.run>>).state as never);
  await session.answer('call-7', { approve: true });

  await attempt([modelError(new Error('cut'))]);
  await session.addItems([user('And my shipping costs.')]); // somebody else's items stay where they came
  await attempt([[functionCall('look_up', { order: '7' }, { callId: 'call-8' })], modelError(new Error('cut'))]);
  await attempt([[assistantMessage('Paid back.')]]);

  const items = await session.getItems();
  expect(items.map((item) => ('callId' in item ? `${item.type} ${item.callId}` : item.type))).toEqual([
    'message',
    'function_call call-7',
    'function_call_result call-7',
    'message',
    'function_call call-8',
    'function_call_result call-8',
    'message',
  ]);
  expect(ran).toEqual(['refund 7', 'look_up 7']);
});

test('a run that waits is waited for until it is resumed and ends, also beside other runs', async () => {
  const { ran, refund } = shop();
  const session = new SavestateSession(new InMemoryCheckpointStorage(), 'order-7');
  const agentOf = (answer: unknown) =>
    new Agent({
      name: 'desk',
      model: session.recordedModel(new ScriptedModel([answer as ReturnType<typeof modelError>])),
      tools: [session.recordedTool(refund)],
    });
  const asked = agentOf([functionCall('refund', { order: '7' }, { callId: 'call-7' })]);
  await session.suspend((await runner.run(asked, 'I want my money back', { session })).state);

  await runner.run(agentOf([assistantMessage('At nine.')]), 'When do you open?', { session });
  expect(await session.pending()).toMatchObject([{ callId: 'call-7' }]);
  await session.answer('call-7', { approve: true });
  const dying = agentOf(modelError(new Error('cut')));
  await expect(runner.run(dying, await session.resume(dying))).rejects.toThrow('cut'); // the call is recorded, and not in the history
  expect(ran).toEqual(['refund 7']);
  await runner.run(agentOf([assistantMessage('At six.')]), 'And close?', { session });

  const done = agentOf([assistantMessage('Paid back.')]);
  expect((await runner.run(done, await session.resume(done), { session })).finalOutput).toBe('Paid back.');
  expect(ran).toEqual(['refund 7']);
  await expect(session.resume(done)).rejects.toThrow('has no suspended run');
});

test('a run that waits is given up with its call, and by a clear', async () => {
  const session = new SavestateSession(new InMemoryCheckpointStorage(), 's');
  const { refund } = shop();
  const stop = async () => {
    const model = new ScriptedModel([[functionCall('refund', { order: '7' }, { callId: 'call-7' })]]);
    const agent = new Agent({ name: 'desk', model, tools: [refund] });
    await session.suspend((await runner.run(agent, 'I want my money back', { session })).state);
  };
  await stop();
  await session.clearSession();
  expect(await session.pending()).toEqual([]);
  await stop();
  await session.popItem();
  await session.addItems([assistantMessage('As you wish.')]);
  expect(await session.pending()).toEqual([]);
});

test('a second run that stops beside one that waits is refused, the same run is not', async () => {
  const session = new SavestateSession(new InMemoryCheckpointStorage(), 's');
  const { ran, refund } = shop();
  const agentOf = (...orders: string[]) => {
    const calls = orders.map((order) => functionCall('refund', { order }, { callId: `call-${order}` }));
    return new Agent({ name: 'desk', model: new ScriptedModel([calls]), tools: [refund] });
  };
  await session.suspend((await runner.run(agentOf('7', '8'), 'Refund both', { session })).state);
  await session.answer('call-7', { approve: true });

  const other = await runner.run(agentOf('9'), 'Refund 9', { session });
  await expect(session.suspend(other.state)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('call-7, call-8'),
  });
  const same = await runner.run(agentOf(), await session.resume(agentOf()), { session });
  expect(await session.suspend(same.state)).toMatchObject([{ callId: 'call-8' }]);
  expect(ran).toEqual(['refund 7']);
  expect(await session.pending()).toMatchObject([{ callId: 'call-8' }]);
});

test('a streamed run passes on what arrives, and goes on like any other', async () => {
  const storage = new InMemoryCheckpointStorage();
  const { ran, lookUp } = shop();
  const attempt = async (model: ScriptedModel, input: string | AgentInputItem[]) => {
    const session = new SavestateSession(storage, 'streamed');
    const agent = new Agent({
      name: 'desk',
      model: session.recordedModel(model),
      tools: [session.recordedTool(lookUp)],
    });
    const result = await runner.run(agent, input, { session, stream: true });
    const seen: string[] = [];
    for await (const event of result) seen.push(event.type);
    await result.completed;
    return { result, seen };
  };
  const [first, second, last] = script();
  const broken = new ScriptedModel([first ?? [], second ?? [], modelError(new Error('cut'))]);
  await expect(attempt(broken, 'Where are my orders?')).rejects.toThrow('cut');
  // The SDK saves the question of a streamed run that fails, so it is not asked again.
  const { result, seen } = await attempt(new ScriptedModel([last ?? []]), []);
  expect(result.finalOutput).toBe('They left yesterday.');
  expect(seen.filter((type) => type === 'raw_model_stream_event').length).toBeGreaterThan(2);
  expect(ran).toHaveLength(2);
  expect(await new SavestateSession(storage, 'streamed').getItems()).toHaveLength(6);
});

test('what is asked again after a clear, or in the next run, is answered anew', async () => {
  const session = new SavestateSession(new InMemoryCheckpointStorage(), 's');
  const model = new ScriptedModel(['one', 'two', 'three'].map((text) => [assistantMessage(text)]));
  const agent = new Agent({ name: 'desk', model: session.recordedModel(model) });
  const ask = async () => (await runner.run(agent, 'hello', { session })).finalOutput;
  expect(await ask()).toBe('one');
  await session.clearSession();
  expect(await ask()).toBe('two');
  expect(await ask()).toBe('three');
});

test('a tool gets one idempotency key for all attempts; tools that are no functions stay as they are', async () => {
  const storage = new InMemoryCheckpointStorage();
  const keys: unknown[] = [];
  let fails = true;
  const pay = tool({
    name: 'pay',
    description: 'pays',
    parameters: z.object({}),
    errorFunction: null,
    execute: (_, __, details) => {
      keys.push((details as { idempotencyKey?: string }).idempotencyKey);
      if (fails) throw new Error('no network');
      return 'paid';
    },
  });
  const attempt = async () => {
    const session = new SavestateSession(storage, 'keys');
    const model = new ScriptedModel([[functionCall('pay', {}, { callId: 'p' })], [assistantMessage('Done.')]]);
    const agent = new Agent({ name: 'desk', model: session.recordedModel(model), tools: [session.recordedTool(pay)] });
    return runner.run(agent, 'pay', { session });
  };
  await expect(attempt()).rejects.toThrow('no network');
  fails = false;
  expect((await attempt()).finalOutput).toBe('Done.');
  expect(keys).toHaveLength(2);
  expect(keys[0]).toMatch(/^eff_/);
  expect(keys[1]).toBe(keys[0]);
  const hosted = { type: 'hosted_tool' as const, name: 'web_search' };
  expect(new SavestateSession(storage, 'keys').recordedTool(hosted as never)).toBe(hosted);
});

test('bytes in a recorded response stay bytes, live and after a restart', async () => {
  const storage = new InMemoryCheckpointStorage();
  const seen: unknown[] = [];
  for (const text of ['live', 'not asked']) {
    const answer = { ...assistantMessage(text), providerData: { audio: Uint8Array.of(1, 2, 255) } };
    const model = new SavestateSession(storage, 'bytes').recordedModel(new ScriptedModel([[answer]]));
    const { output } = await model.getResponse({ input: 'Say it.' } as ModelRequest);
    seen.push(output[0]?.providerData?.audio);
  }
  expect(seen).toStrictEqual([Uint8Array.of(1, 2, 255), Uint8Array.of(1, 2, 255)]);
});

test('forks at an item, follows a rewind, and is deleted with its recordings', async () => {
  const storage = new InMemoryCheckpointStorage();
  const session = new SavestateSession(storage, 'f');
  await session.addItems([user('a'), user('b')]);
  await session.addItems([user('c')]);
  await session.fork({ branch: 'what-if', at: 1 });
  const fork = new SavestateSession({ storage, sessionId: 'f', branch: 'what-if' });
  await fork.addItems([user('z')]);
  expect(await fork.getItems()).toEqual([user('a'), user('z')]);
  const manager = new CheckpointManager({ storage });
  const { checkpoints } = await manager.list({ sessionId: 'openai/f', branch: 'main' });
  await manager.rewind(checkpoints.at(-1)?.id ?? '');
  expect(await session.getItems()).toEqual([user('a'), user('b')]);
  await session.delete();
  expect((await storage.listSessions({ limit: 9 })).length).toBe(0);
});

test('random operations leave what a MemorySession has', async () => {
  const operations = fc.oneof(
    fc.record({ do: fc.constant('add'), texts: fc.array(fc.string({ maxLength: 4 }), { maxLength: 3 }) }),
    fc.record({ do: fc.constant('pop') }),
    fc.record({ do: fc.constant('clear') }),
    fc.record({ do: fc.constant('get'), limit: fc.integer({ min: -1, max: 5 }) }),
  );
  const property = fc.asyncProperty(fc.array(operations, { maxLength: 25 }), async (steps) => {
    const [ours, oracle] = [new SavestateSession(new InMemoryCheckpointStorage(), 'r'), new MemorySession()];
    const apply = (session: Session, step: { do: string; texts?: string[]; limit?: number }): Promise<unknown> => {
      if (step.do === 'add') return session.addItems((step.texts ?? []).map(user));
      if (step.do === 'pop') return session.popItem();
      return step.do === 'clear' ? session.clearSession() : session.getItems(step.limit);
    };
    for (const step of steps) expect(await apply(ours, step)).toEqual(await apply(oracle, step));
    expect(await ours.getItems()).toEqual(await oracle.getItems());
  });
  await fc.assert(property, drawn(400));
});

test('bad input is refused, and nothing is lost', async () => {
  const storage = new InMemoryCheckpointStorage();
  const session = new SavestateSession(storage, 'b');
  await session.addItems([user('a')]);
  await expect(session.addItems([{ ...user('b'), providerData: { run: () => 1 } } as never])).rejects.toThrow(
    'Cannot save $[0].providerData.run: it is a function',
  );
  const unknown = [{ type: 'drop_everything', callId: '1' }] as never;
  await expect(session.applyHistoryMutations({ mutations: unknown })).rejects.toThrow(
    'is no history mutation that is known',
  );
  await expect(session.suspend({ getInterruptions: () => [] } as never)).rejects.toThrow('waits for nobody');
  await expect(session.answer('x', { aprove: true } as never)).rejects.toThrow('did you mean "approve"?');
  await expect(session.answer('x', { approve: true, message: 'Go.' })).rejects.toThrow('would be lost');
  for (const apply of ['applyHistoryTransaction', 'applyHistoryMutations'] as const)
    await expect(session[apply](undefined as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  for (const record of ['recordedModel', 'recordedProvider', 'recordedTool'] as const)
    for (const given of [undefined, {}])
      expect(() => session[record](given as never)).toThrow(`of ${record}() must be`);
  for (const given of [undefined, { branch: 'x', from: 1 }, { branch: 'x', at: 0.5 }])
    await expect(session.fork(given as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(() => new SavestateSession({ storage, sessionId: 'x' }, 'y')).toThrow('Two session ids were given');
  expect(() => new SavestateSession(storage, '')).toThrow('A session id must be');
  expect(() => new SavestateSession({ storage, sesion: 'x' } as never)).toThrow('is not an option of SavestateSession');
  expect(await session.getItems()).toEqual([user('a')]);
  await new CheckpointManager({ storage }).save({ own: 1 }, { sessionId: 'openai/taken' });
  await expect(new SavestateSession(storage, 'taken').getItems()).rejects.toThrow(
    'holds a state that is no transcript',
  );
});

test.each([[undefined], [[null]], ['x'], [['x']]])('a history of %j is refused, and the items stay', async (given) => {
  const session = new SavestateSession(new InMemoryCheckpointStorage(), 'c');
  await session.addItems([call('1')]);
  const items = given as never;
  const transact = (transaction: object) =>
    session.applyHistoryTransaction({ operationId: 'o', transaction: transaction as never });
  const mutation = { type: 'replace_function_call' as const, callId: '1', replacement: given as never };
  for (const refused of [
    session.addItems(items),
    session.replaceHistoryWithCompaction(items),
    transact(given as never),
    transact({ type: 'append_items', items }),
    transact({ type: 'replace_suffix', expectedSuffix: items, replacement: [] }),
    transact({ type: 'replace_suffix', expectedSuffix: [], replacement: items }),
    session.applyHistoryMutations({ mutations: given as never }),
    session.applyHistoryMutations({ mutations: [mutation] }),
    session.suspend(given as never),
  ])
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(await session.getItems()).toEqual([call('1')]);
});
