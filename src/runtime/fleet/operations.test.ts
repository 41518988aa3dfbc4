import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { countReplies, createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { TestClock } from '../../../test/support/clock.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import { FLEET } from './fleet-kind.ts';
import type { FleetRequest, FleetState } from './fleet-state.ts';

const TASK = { task: 'Find out what is known.' };
const GATED = { humanInTheLoop: { require_approval_for: ['look_up'] } };
const once = { assess: (request: ModelRequest) => ({ satisfied: countReplies(request) >= 1 }) };

/** What the tool's result was, as the model of the agent was told. */
function toolResults(requests: readonly ModelRequest[]): string[] {
  return requests.flatMap(({ messages }) => {
    const last = messages.at(-1);
    return last?.role === 'tool' ? [JSON.stringify(last.content)] : [];
  });
}

describe('operations', () => {
  test('[fleet.8] a tool that needs it waits for a person, in the checkpoint, and its turn goes on where it was', async () => {
    const storage = new InMemoryCheckpointStorage();
    const crew = createCrew(once, GATED);
    const first = createRunner(crew, { storage });
    const waiting = await first.runner.run(TASK);
    expect(waiting).toMatchObject({
      status: 'waiting',
      request: {
        id: 'round-1-1',
        kind: 'operation',
        agent: 'researcher',
        operation: 'look_up',
        message: 'May researcher call look_up (look_up)?',
        options: ['approve', 'reject'],
        input: { input: { what: 'thing 2' } },
      },
    });
    expect(crew.calls).toEqual([]);
    const later = createCrew(once, GATED);
    const { runner } = createRunner(later, { storage });
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    const result = await runner.resume();
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'satisfied' } });
    expect(later.calls).toEqual(['thing 2']);
    const agentCalls = [...crew.model.requests, ...later.model.requests].filter(
      ({ system }) => system === 'You look things up.',
    );
    expect(agentCalls).toHaveLength(2); // the call of the tool, and the words after it: neither is asked for twice
    expect(result.totals.modelCalls).toBe(crew.model.requests.length + later.model.requests.length);
  });

  test('[run.1] an approval with other inputs is refused, and nothing is done', async () => {
    const crew = createCrew(once, GATED);
    const { runner } = createRunner(crew);
    await runner.run(TASK);
    const given = { requestId: 'round-1-1', answer: 'approve', by: 'Ann', value: { what: 'thing 1' } };
    await expect(runner.answer(given)).rejects.toThrow('takes no value; found an object. To have something else done');
    expect(crew.calls).toEqual([]);
    expect(await runner.pending()).toHaveLength(1);
  });

  test('[fleet.8] the round that waits is one of those it is resumed for', async () => {
    const crew = createCrew({ assess: () => ({ satisfied: false }) }, GATED);
    const { runner } = createRunner(crew);
    await runner.run(TASK);
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    expect(await runner.resume({ rounds: 1 })).toMatchObject({ rounds: 1, end: { reason: 'max_rounds' } });
  });

  test('[fleet.8] what is rejected is not done, and the agent is told by whom', async () => {
    const crew = createCrew(once, GATED);
    const { runner } = createRunner(crew);
    await runner.run(TASK);
    await runner.answer({ requestId: 'round-1-1', answer: 'reject', by: 'Ann', value: 'Not today.' });
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toEqual([]);
    expect(toolResults(crew.model.requests)[0]).toContain(
      'look_up was rejected by Ann, so it was not done. Not today.',
    );
  });

  test('[fleet.8] several calls of one turn are asked for one after the other', async () => {
    const crew = createCrew(
      {
        ...once,
        speak: ({ messages }) =>
          messages.at(-1)?.role === 'tool'
            ? 'Done.'
            : { toolCalls: ['a', 'b', 'c'].map((what) => ({ id: what, name: 'look_up', input: { what } })) },
      },
      GATED,
    );
    const { runner } = createRunner(crew);
    const ids: string[] = [];
    let result = await runner.run(TASK);
    while (result.status === 'waiting') {
      const { id } = result.request;
      ids.push(id);
      await runner.answer({ requestId: id, answer: ids.length === 2 ? 'reject' : 'approve', by: 'Ann' });
      result = await runner.resume();
    }
    expect(ids).toEqual(['round-1-1', 'round-1-2', 'round-1-3']);
    expect(crew.calls).toEqual(['a', 'c']);
    expect(crew.model.requests.filter(({ system }) => system === 'You look things up.')).toHaveLength(2);
  });

  test('[fleet.8] trusted operations and others need nobody', async () => {
    const crew = createCrew(once, {
      humanInTheLoop: { require_approval_for: ['*'], trusted_operations: ['data_analysis'] },
      operations: { look_up: 'data_analysis' },
    });
    expect(await createRunner(crew).runner.run(TASK)).toMatchObject({ status: 'ended' });
    expect(crew.calls).toHaveLength(1);
    expect(() => createCrew(once, { operations: { look_up: 'x' } })).toThrow(
      'the fleet has none, so they have no effect',
    );
  });

  test('[fleet.8] running code is the operation code_execution', async () => {
    const workDir = join(temporaryFolder(), 'work');
    const model = createCrew({
      assess: ({ messages }) => ({
        satisfied: messages.some(({ content }) => String(content).startsWith('runner: ')),
        speaker: 'runner',
        say: '```js\nconsole.log(6 * 7)\n```',
      }),
    }).model;
    const runner = new StandardAgent({ name: 'runner', codeExecution: { workDir } });
    const policy = { require_approval_for: ['code_execution'] };
    const crew = createCrew({}, { agents: [runner], model, humanInTheLoop: policy });
    const { runner: fleet } = createRunner(crew);
    expect(await fleet.run(TASK)).toMatchObject({
      status: 'waiting',
      request: { operation: 'code_execution', message: 'May runner run code (code_execution)?' },
    });
    await fleet.answer({ requestId: 'round-1-1', answer: 'reject', by: 'Ann' });
    const result = await fleet.resume();
    expect(result.messages.at(-1)?.content).toContain('code_execution was rejected by Ann, so it was not done.');
  });

  test('[fleet.8] a person behind an agent is asked for its words, and they live in the checkpoint, too', async () => {
    const crew = createCrew(once, { researcher: { humanInputMode: 'ALWAYS' } });
    const { runner } = createRunner(crew);
    expect(await runner.run(TASK)).toMatchObject({
      status: 'waiting',
      request: { id: 'round-1-reply', kind: 'reply', options: [] },
    });
    await runner.answer({ requestId: 'round-1-reply', answer: 'I know it.', by: 'Ann' });
    const result = await runner.resume();
    expect(result.messages.at(-1)).toMatchObject({ name: 'researcher', content: 'I know it.' });
  });

  test('[fleet.8] a run that is stopped while somebody thinks leaves the request open', async () => {
    const stop = new AbortController();
    const crew = createCrew(once, GATED);
    const { runner, manager } = createRunner(crew, {
      signal: stop.signal,
      ask: () => {
        stop.abort();
        return new Promise(() => undefined);
      },
    });
    expect(await runner.run(TASK)).toMatchObject({ status: 'stopped' });
    expect((await runner.pending()).map(({ id }) => id)).toEqual(['round-1-1']);
    const later = createCrew(once, GATED);
    const ask = async () => ({ answer: 'approve' });
    expect(await createRunner(later, { manager, ask }).runner.resume()).toMatchObject({ status: 'ended' });
    expect([...crew.calls, ...later.calls]).toHaveLength(1);
  });

  test.each(['before', 'after'])(
    '[fleet.8] what was allowed %s the prompt changed in mid-turn allows nothing else',
    async (answered) => {
      const storage = new InMemoryCheckpointStorage();
      const speak = ({ system = '', messages }: ModelRequest) =>
        messages.at(-1)?.role === 'tool'
          ? 'Done.'
          : { toolCalls: [{ name: 'look_up', input: { what: system.includes('everything') ? 'everything' : 'tea' } }] };
      const first = createRunner(createCrew({ ...once, speak }, GATED), { storage }).runner;
      await first.run(TASK);
      const answer = { requestId: 'round-1-1', answer: 'approve', by: 'Ann' };
      if (answered === 'before') await first.answer(answer);
      const researcher = { systemMessage: 'You look everything up.' };
      const later = createCrew({ ...once, speak }, { ...GATED, researcher });
      const { runner } = createRunner(later, { storage });
      const waiting = await runner.resume({ onDifference: 'accept' });
      expect(later.calls).toEqual([]);
      expect(waiting).toMatchObject({ status: 'waiting', request: { input: { input: { what: 'everything' } } } });
      const pending = await runner.pending();
      expect(pending).toMatchObject([{ id: expect.stringMatching(/^round-1-1-[0-9a-f]{8}$/) }]);
      await expect(runner.answer(answer)).rejects.toMatchObject({ code: 'CONFLICT' });
      await runner.answer({ ...answer, requestId: pending[0]?.id ?? '' });
      expect(await runner.resume()).toMatchObject({ status: 'ended' });
      expect(later.calls).toEqual(['everything']);
    },
  );

  test('[fleet.8] nothing is asked any more once the fleet has ended, also what the settings do not ask for by now', async () => {
    const storage = new InMemoryCheckpointStorage();
    await createRunner(createCrew(once, GATED), { storage }).runner.run(TASK);
    const { runner } = createRunner(createCrew(once), { storage });
    expect(await runner.resume({ onDifference: 'accept' })).toMatchObject({ status: 'ended' });
    expect(await runner.pending()).toEqual([]);
  });

  test('[fleet.8] such a person can end it', async () => {
    const crew = createCrew(once, { researcher: { humanInputMode: 'ALWAYS' } });
    const { runner } = createRunner(crew, { ask: async () => ({ answer: 'exit' }) });
    expect(await runner.run(TASK)).toMatchObject({ status: 'ended', end: { reason: 'exit' } });
  });
});

describe('nobody answers', () => {
  const within = (settings: object) => ({
    humanInTheLoop: { ...GATED.humanInTheLoop, approval_timeout_seconds: 300, ...settings },
  });

  test('[fleet.8] approval_timeout_seconds with auto_reject_on_timeout rejects when the time is over, and not before', async () => {
    const clock = new TestClock();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: clock.now });
    const crew = createCrew(once, within({ auto_reject_on_timeout: true }));
    const { runner } = createRunner(crew, { manager });
    const deadlineMs = clock.now() + 300_000;
    const waiting = await runner.run(TASK);
    expect(waiting).toMatchObject({
      status: 'waiting',
      wakeAtMs: deadlineMs,
      request: { deadlineMs, onTimeout: 'reject' },
    });
    clock.skip(299_999);
    expect(await runner.resume()).toMatchObject({ status: 'waiting' });
    clock.skip(1);
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toEqual([]);
    expect(toolResults(crew.model.requests)[0]).toContain('rejected by timeout');
    const late = runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    await expect(late).rejects.toThrow('already answered by timeout');
  });

  test('[fleet.8] without auto_reject_on_timeout the request stays open', async () => {
    const clock = new TestClock();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: clock.now });
    const crew = createCrew(once, within({ auto_reject_on_timeout: false }));
    const { runner } = createRunner(crew, { manager });
    const waiting = await runner.run(TASK);
    expect(waiting.wakeAtMs).toBeUndefined();
    clock.skip(86_400_000);
    expect(await runner.resume()).toMatchObject({ status: 'waiting' });
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toHaveLength(1);
  });

  test('[fleet.8] a person who is asked at once and does not answer in time is not waited for', async () => {
    const crew = createCrew(once, within({ auto_reject_on_timeout: true, approval_timeout_seconds: 2 }));
    let wasTold = false;
    const { runner } = createRunner(crew, {
      ask: (_, { signal }) => {
        const tell = () => {
          wasTold = true;
        };
        if (signal.aborted)
          tell(); // on a slow machine the time is up before anybody is asked
        else signal.addEventListener('abort', tell);
        return new Promise(() => undefined);
      },
    });
    expect(await runner.run(TASK)).toMatchObject({ status: 'ended' });
    expect([wasTold, crew.calls]).toEqual([true, []]);
  });

  test('[fleet.8] an answer after the deadline is refused, also if nobody has looked since', async () => {
    const clock = new TestClock();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: clock.now });
    const crew = createCrew(once, within({ auto_reject_on_timeout: true }));
    const { runner } = createRunner(crew, { manager });
    const dueMs = (await runner.run(TASK)).wakeAtMs ?? 0;
    clock.skip(300_000);
    expect(await runner.pending()).toEqual([]);
    const late = { requestId: 'round-1-1', answer: 'approve', by: 'timeout' };
    await expect(runner.answer(late)).rejects.toMatchObject({
      code: 'CONFLICT',
      message: `Request "round-1-1" was due by ${new Date(dueMs).toISOString()}. Nobody answered in time, so it was decided: "reject".`,
    });
    await expect(runner.answer(late)).rejects.toThrow('already answered by timeout: "reject"');
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toEqual([]);
  });

  test('[fleet.8] a late answer that an older version let in is not heard', async () => {
    const clock = new TestClock();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: clock.now });
    const crew = createCrew(once, within({ auto_reject_on_timeout: true }));
    const { runner } = createRunner(crew, { manager });
    await runner.run(TASK);
    const [request] = await runner.pending();
    clock.skip(300_000);
    const head = await manager.latest({ sessionId: 'crew' });
    await manager.fork<FleetState>(head?.id ?? '', {
      branch: 'answer/main/round-1-1',
      edit: (state) =>
        FLEET.requests.withAnswer(state, request as FleetRequest, { answer: 'approve', by: 'Ann', atMs: clock.now() }),
    });
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toEqual([]);
  });

  test('[fleet.8] an answer that was left in time counts, also if it is read late', async () => {
    const clock = new TestClock();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: clock.now });
    const crew = createCrew(once, within({ auto_reject_on_timeout: true }));
    const { runner } = createRunner(crew, { manager });
    await runner.run(TASK);
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    clock.skip(86_400_000);
    expect(await runner.resume()).toMatchObject({ status: 'ended' });
    expect(crew.calls).toHaveLength(1);
  });
});
