import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { countReplies, createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { LATER } from '../../../test/support/later.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import {
  CheckpointingGroupChatManager,
  type GroupChatManagerOptions,
} from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import type { ModelRequest } from '../model/chat-model.ts';

/** A clerk that pays 1, 2, 3, ... in its turns, by calls that its model names anew each time. */
function open() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const paid: { amount: number; key: string; attempt: number }[] = [];
  const amountsOf: { turn: (turn: number) => number } = { turn: (turn) => turn };
  const failing = new Set<number>();
  const pending: number[] & { onCall?: () => void } = []; // the calls that are stopped before they end
  const passwords = ['correct horse battery']; // which is not stored
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ amount: z.number(), password: z.string().optional() }),
    run: async ({ amount }, { idempotencyKey: key, attempt, signal }) => {
      paid.push({ amount, key, attempt });
      if (pending.pop() !== undefined) pending.onCall?.();
      signal?.throwIfAborted();
      if (failing.delete(amount)) throw new Error('The bank is closed.');
      return `receipt ${paid.length}`;
    },
  });
  let calls = 0;
  const model = scriptedModel(
    ({ messages }) => {
      const last = messages.at(-1);
      const amount = amountsOf.turn(messages.filter(({ role }) => role === 'user').length);
      if (amount === 0) return 'No.';
      if (last?.role !== 'tool')
        return { toolCalls: [{ id: `call-${++calls}`, name: 'pay', input: { amount, password: passwords.at(-1) } }] };
      return JSON.stringify(last.content).match(/receipt \d+|closed/)?.[0] ?? '?';
    },
    { id: 'm' },
  );
  const hold = (options: Partial<GroupChatManagerOptions> = {}) => {
    const agents = [
      new StandardAgent({ name: 'clerk', model, tools: [pay] }),
      new StandardAgent({ name: 'boss', defaultReply: 'Next.' }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 3 });
    return new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false, ...options });
  };
  const amounts = () => paid.map(({ amount }) => amount);
  return { manager, paid, amountsOf, failing, pending, passwords, hold, amounts, model, pay };
}

const START = { sessionId: 's', at: 'message 1' };
const agentsOf = (state: unknown) => (state as { agents: { clerk: { totals: object } } }).agents;
const said = (messages: readonly { content: string }[]) => messages.map(({ content }) => content);

describe('a conversation that was rewound', () => {
  test('[run.6] does not make finished calls again, also after it was stopped, and rewound once more', async () => {
    const { manager, hold, amounts } = open();
    const first = await hold().run({ message: 'Go.' });
    expect([said(first.messages), amounts()]).toEqual([
      ['Go.', 'receipt 1', 'Next.', 'receipt 2'],
      [1, 2],
    ]);
    for (const _ of [1, 2]) {
      await manager.rewind(START);
      const stop = new AbortController();
      const stopped = await hold({ signal: stop.signal, onMessage: () => stop.abort() }).resume();
      expect([stopped.status, stopped.messages.length]).toEqual(['stopped', 2]);
      expect(said((await hold().resume()).messages)).toEqual(said(first.messages));
      expect(amounts()).toEqual([1, 2]);
    }
    await hold().resume({ rounds: 2 });
    expect(amounts()).toEqual([1, 2, 3]);
  });

  test('[run.6] makes a call that failed again, with its key', async () => {
    const { manager, hold, paid, failing } = open();
    failing.add(2);
    expect((await hold().run({ message: 'Go.' })).messages.at(-1)?.content).toBe('closed');
    await manager.rewind(START);
    expect((await hold().resume()).messages.at(-1)?.content).toBe('receipt 3');
    expect(paid.map(({ amount }) => amount)).toEqual([1, 2, 2]);
    expect(paid[2]?.key).toBe(paid[1]?.key);
  });

  test('[run.6] a call that ended when it was made again is not made at later rewinds, and its attempts are counted', async () => {
    const { manager, hold, paid, failing } = open();
    failing.add(2);
    await hold().run({ message: 'Go.' });
    for (const _ of [1, 2, 3]) {
      await manager.rewind(START);
      expect((await hold().resume()).messages.at(-1)?.content).toBe('receipt 3');
    }
    expect(paid.map(({ amount, attempt }) => [amount, attempt])).toEqual([
      [1, 1],
      [2, 1],
      [2, 2],
    ]);
  });

  test('[run.6] equal calls are counted across rewinds to several points', async () => {
    const { manager, hold, paid, amountsOf } = open();
    amountsOf.turn = (turn) => (turn === 1 ? 5 : 0);
    await hold().run({ message: 'Go.' });
    amountsOf.turn = () => 5;
    for (const at of ['message 3', 'message 1', 'message 3', 'message 1', 'message 1']) {
      await manager.rewind({ sessionId: 's', at });
      const { messages } = await hold().resume();
      expect(said(messages)).toEqual(['Go.', 'receipt 1', 'Next.', 'receipt 2']);
    }
    expect(new Set(paid.map(({ key }) => key)).size).toBe(2);
    expect(paid.length).toBe(2);
  });

  test('[run.6] a call that one rewind left out is not made again after the next', async () => {
    const { manager, hold, amounts, amountsOf } = open();
    amountsOf.turn = (turn) => (turn === 1 ? 0 : 5);
    await hold().run({ message: 'Go.' });
    amountsOf.turn = () => 0;
    await manager.rewind(START);
    await hold().resume();
    amountsOf.turn = () => 5;
    await manager.rewind({ sessionId: 's', at: 'message 3' });
    expect((await hold().resume()).messages.at(-1)?.content).toBe('receipt 1');
    expect(amounts()).toEqual([5]);
  });

  test('[run.6] a call that was in flight is finished once, also by a second resume of the rewound branch', async () => {
    const { manager, hold, paid, pending, passwords } = open();
    passwords.pop(); // without it, a call is not made after a stop
    pending.push(1, 1);
    for (const how of ['run', 'rewind', 'resume']) {
      if (how === 'rewind') await manager.rewind(START);
      const stop = new AbortController();
      pending.onCall = () => stop.abort();
      const held = hold({ signal: stop.signal });
      const { status } = await (how === 'run' ? held.run({ message: 'Go.' }) : held.resume());
      expect(status).toBe(how === 'resume' ? 'ended' : 'stopped');
    }
    await manager.rewind(START);
    await hold().resume();
    expect(paid.map(({ amount, attempt }) => [amount, attempt])).toEqual([
      [1, 1],
      [1, 2],
      [1, 3],
      [2, 1],
    ]);
    expect(new Set(paid.map(({ key }) => key)).size).toBe(2);
  });

  test('[run.6] with an edit it does not make them again, either', async () => {
    const { manager, hold, amounts } = open();
    await hold().run({ message: 'Go.' });
    await manager.rewind(START, { edit: [{ op: 'replace', path: '/chat/messages/0/content', value: 'Go on.' }] });
    expect(said((await hold().resume()).messages)).toEqual(['Go on.', 'receipt 1', 'Next.', 'receipt 2']);
    expect(amounts()).toEqual([1, 2]);
  });

  test('[run.6] however the branch was made, and edited since, it does not make them again', LATER, async () => {
    const note = (state: unknown): void => void Object.assign(agentsOf(state).clerk.totals, { costUsd: 1 });
    type Opened = ReturnType<typeof open>;
    const ways: readonly ((opened: Opened) => Promise<unknown>)[] = [
      async ({ manager }) => {
        await manager.rewind(START);
        await (await manager.session('s')).update(note);
      },
      async ({ manager, hold }) => {
        const session = await manager.session('s');
        await session.rewind('message 1');
        await session.update(note);
        await session.update((state) => void Object.assign(agentsOf(state).clerk.totals, { costUsd: 2 }));
        await session.close();
        const stop = new AbortController();
        await hold({ signal: stop.signal, onMessage: () => stop.abort() }).resume();
        await (await manager.session('s')).update(note); // after a run on the branch, too
      },
      async ({ manager }) => {
        const fork = await (await manager.session('s')).fork({ at: 'message 1' });
        await fork.update(note);
        await manager.switchBranch('s', fork.branch);
      },
      async ({ manager }) => {
        const { headId } = await manager.fork(START, { edit: note });
        const { branch } = await manager.fork(headId, { edit: note });
        await (await manager.session('s', { branch })).update(note);
        await manager.switchBranch('s', branch);
      },
      async ({ manager }) => {
        await manager.rewind(START);
        const session = await manager.session('s');
        await session.update(note);
        const between = session.head?.id ?? '';
        await session.update((state) => void Object.assign(agentsOf(state).clerk.totals, { costUsd: 2 }));
        expect(await manager.delete(between)).toBe(true);
      },
    ];
    for (const way of ways) {
      const opened = open();
      const { manager, hold, amounts } = opened;
      const first = await hold().run({ message: 'Go.' });
      await way(opened);
      expect(said((await hold().resume()).messages)).toEqual(said(first.messages));
      expect(amounts()).toEqual([1, 2]);
      await manager.rewind(START);
      await hold().resume();
      expect(amounts()).toEqual([1, 2]);
    }
  });

  test('[run.6] a branch on which it ran by itself goes its own way, also after an edit', async () => {
    const { manager, hold, amounts } = open();
    await hold().run({ message: 'Go.' });
    const { branch } = await manager.fork(START, { branch: 'own' });
    await hold({ branch }).resume();
    await manager.switchBranch('s', branch);
    await (await manager.session('s')).update(
      (state) => void Object.assign(agentsOf(state).clerk.totals, { costUsd: 1 }),
    );
    await hold().resume({ rounds: 2 });
    expect(amounts()).toEqual([1, 2, 1, 2, 3]);
  });

  test('[run.6] a call with another secret is another call', async () => {
    const { manager, hold, amounts, passwords } = open();
    await hold().run({ message: 'Go.' });
    await manager.rewind(START);
    passwords.push('another horse battery');
    await hold().resume();
    expect(amounts()).toEqual([1, 2, 1, 2]);
  });

  test('[run.6] a continuation of its own makes its calls itself', async () => {
    const { manager, hold, paid, model, pay } = open();
    await hold().run({ message: 'Go.' });
    const registry = new AgentRegistry({ tools: [pay], models: { m: model } });
    await new CheckpointRestorer({ manager, registry }).continue(START, { rounds: 1, logs: false });
    expect(paid.map(({ amount }) => amount)).toEqual([1, 2, 1]);
    expect(paid[2]?.key).not.toBe(paid[0]?.key);
  });
});

test('[run.6] a fleet that was rewound does not make finished calls again', async () => {
  const first = createCrew();
  const { runner, manager } = createRunner(first);
  const { sessionId } = await runner.run({ task: 'Find out what is known.' });
  expect(first.calls.length).toBeGreaterThan(0);
  const { checkpoints } = await manager.list({ sessionId }, { order: 'oldest', limit: 2 });
  await manager.rewind(checkpoints[1]?.id ?? '');
  const again = createCrew();
  const result = await createRunner(again, { manager, sessionId }).runner.resume();
  expect([result.status, again.calls]).toEqual(['ended', []]);
});

describe('a fleet that was rewound into the middle of a turn', () => {
  const TASK = { task: 'Find out what is known.' };
  const once = { assess: (request: ModelRequest) => ({ satisfied: countReplies(request) >= 1 }) };
  const gated = { humanInTheLoop: { require_approval_for: ['look_up'] } };

  test('[run.6] to a request: the call that was approved is not made again, however often', async () => {
    const first = createCrew(once, gated);
    const { runner, manager } = createRunner(first);
    const { status, checkpointId = '' } = await runner.run(TASK);
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'ann' });
    const ended = await runner.resume();
    expect([status, ended.status, first.calls.length]).toEqual(['waiting', 'ended', 1]);
    for (const _ of [1, 2]) {
      await manager.rewind(checkpointId);
      const again = createCrew(once, gated);
      const held = createRunner(again, { manager }).runner;
      await held.answer({ requestId: 'round-1-1', answer: 'approve', by: 'ann' });
      const result = await held.resume();
      expect([result.status, again.calls]).toEqual(['ended', []]);
      expect(said(result.messages)).toEqual(said(ended.messages));
    }
  });

  test('[run.6] to a failure: what was called after it is not called again', async () => {
    const first = createCrew(once);
    const failures = [new Error('The screen is off.')];
    const { runner, manager } = createRunner(first, {
      onToolCall: () => {
        for (const failure of failures.splice(0)) throw failure;
      },
    });
    const failed = await runner.run(TASK);
    const ended = await runner.resume();
    expect([failed.status, ended.status, first.calls.length]).toEqual(['failed', 'ended', 1]);
    await manager.rewind(failed.checkpointId ?? '');
    const again = createCrew(once);
    const result = await createRunner(again, { manager }).runner.resume();
    expect([result.status, again.calls]).toEqual(['ended', []]);
  });
});
