import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { countReplies, createCrew, createRunner, lastQuestion } from '../../../test/fleet/crew.ts';
import { STORAGES, temporaryFolder } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Memory } from '../../memory/memory.ts';
import type { Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { superviseFleet } from './fleet-runner.ts';
import { parseFleetState } from './fleet-state.ts';

const TASK = { task: 'Find out what is known.' };

/** Four replies before it is done. */
const long = { assess: (request: Parameters<typeof countReplies>[0]) => ({ satisfied: countReplies(request) >= 4 }) };

/** A storage that has no room for some checkpoints. */
class FullDisk extends InMemoryCheckpointStorage {
  readonly #isFull: () => boolean;

  constructor(isFull: () => boolean) {
    super();
    this.#isFull = isFull;
  }

  override async commit(commit: Commit) {
    if (commit.checkpoint !== undefined && this.#isFull()) throw new StorageError('The disk is full.');
    return super.commit(commit);
  }
}

/** A memory, and what it has of somebody, in order. */
function openMemory() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const memory = new Memory({ path: join(temporaryFolder(), 'memory.db'), manager });
  const all = async (userId: string) => (await memory.getAll({ userId })).map((one) => one.memory).sort();
  return { manager, memory, all };
}

describe('checkpoints', () => {
  test('[fleet.5] there is one after every round, and it holds both ledgers', async () => {
    const { runner, manager } = createRunner(createCrew(long));
    await runner.run(TASK);
    const { checkpoints: all } = await manager.list({ sessionId: 'crew' });
    const inOrder = all.toReversed();
    expect(inOrder.map(({ trigger }) => trigger)).toEqual([
      'fleet_start',
      'plan_created',
      ...Array(4).fill('round_completed'),
      'fleet_end',
    ]);
    expect(inOrder.map(({ metadata }) => metadata?.round)).toEqual([0, 0, 1, 2, 3, 4, 5]);
    for (const { id } of inOrder.filter(({ trigger }) => trigger === 'round_completed')) {
      expect(parseFleetState(await manager.load(id)).fleet).toMatchObject({
        taskLedger: { facts: 'The facts.', plan: 'Look it up.' },
        progressLedger: { next_speaker: { reason: 'because researcher', answer: 'researcher' } },
      });
    }
  });

  test('[fleet.5] an agent with checkpoint: false makes none after its rounds, and nothing of them is lost', async () => {
    const crew = createCrew(long, { researcher: { runtime: { checkpoint: false } } });
    const stop = new AbortController();
    let rounds = 0;
    const first = createRunner(crew, {
      signal: stop.signal,
      onProgressLedger: () => ++rounds === 3 && stop.abort(),
    });
    await first.runner.run(TASK);
    const again = createCrew(long, { researcher: { runtime: { checkpoint: false } } });
    const { runner, manager } = createRunner(again, { manager: first.manager });
    const result = await runner.resume();
    expect(result).toMatchObject({ status: 'ended', rounds: 5 });
    expect([...crew.calls, ...again.calls]).toHaveLength(4);
    const { checkpoints: all } = await manager.list({ sessionId: 'crew' });
    expect(all.map(({ trigger }) => trigger)).not.toContain('round_completed');
  });
});

test('[run.14] agents with store: true teach long-term memory, also with checkpoint: false', async () => {
  const { manager, memory, all } = openMemory();
  for (const checkpoint of [true, false]) {
    const crew = createCrew(long, { researcher: { runtime: { store: true, checkpoint } } });
    const given = { memory, scope: { userId: `eve-${checkpoint}` } };
    await createRunner(crew, { manager, sessionId: `s-${checkpoint}`, memory: given }).runner.run(TASK);
  }
  const taught = await all('eve-true');
  expect(taught).toHaveLength(5);
  expect(await all('eve-false')).toEqual(taught);
});

describe('resuming', () => {
  test.each(STORAGES.filter(([name]) => name !== 'postgres'))(
    '[fleet.5] a resume reloads both ledgers exactly and goes on in another process (%s)',
    async (_, create) => {
      const { storage, reopen } = create();
      const whole = await createRunner(createCrew(long)).runner.run(TASK);
      const crew = createCrew(long);
      const stop = new AbortController();
      const first = createRunner(crew, {
        storage,
        signal: stop.signal,
        onCheckpoint: ({ metadata, trigger }) => {
          if (trigger === 'round_completed' && metadata?.round === 2) stop.abort();
        },
      });
      expect(await first.runner.run(TASK)).toMatchObject({ status: 'stopped', rounds: 2 });
      const before = crew.fleet.saveState();
      const later = createCrew(long);
      const second = createRunner(later, { storage: reopen?.() ?? storage });
      let loaded: unknown;
      const result = await createRunner(later, {
        manager: second.manager,
        onProgressLedger: () => {
          loaded ??= { rounds: later.fleet.record.rounds, ledger: later.fleet.record.taskLedger };
        },
      }).runner.resume();
      expect(loaded).toEqual({ rounds: 3, ledger: before.fleet.taskLedger });
      expect({ ...result, checkpointId: '' }).toEqual({ ...whole, checkpointId: '' });
      expect(later.calls).toHaveLength(2);
      await second.manager.close();
      await first.manager.close();
    },
  );

  test('[run.10] rounds change nothing of a fleet that is satisfied: its head says how it ended', async () => {
    const { runner, manager } = createRunner(createCrew());
    const { checkpointId, rounds } = await runner.run(TASK);
    const more = await runner.resume({ rounds: 2 });
    expect(more).toMatchObject({ status: 'ended', end: { reason: 'satisfied' }, rounds, checkpointId });
    const head = await manager.latest({ sessionId: 'crew' });
    expect(head).toMatchObject({ id: checkpointId, trigger: 'fleet_end', status: 'completed' });
    expect((await runner.resume({ rounds: 2, prompt: 'And in French?' })).rounds).toBeGreaterThan(rounds);
  });

  test('[run.10] rounds also count if a limit was reached and the answer is not given yet', async () => {
    const crew = createCrew(long, { maxRoundCount: 2 });
    const manager = createRunner(crew).manager;
    for (const agent of crew.fleet.agents) agent.setStatus('running');
    crew.fleet.change({
      ...TASK,
      phase: 'answer',
      ending: 'max_rounds',
      rounds: 2,
      taskLedger: { facts: 'a', plan: 'b' },
    });
    await (await manager.session('crew')).save(crew.fleet.saveState());
    const { runner } = createRunner(createCrew(long, { maxRoundCount: 2 }), { manager });
    expect(await runner.resume({ rounds: 1 })).toMatchObject({ rounds: 3, end: { reason: 'max_rounds' } });
  });

  test('[fleet.5] a resume in the middle of a round repeats no finished call', async () => {
    const storage = new InMemoryCheckpointStorage();
    const crew = createCrew({
      ...long,
      speak: ({ messages }) => {
        if (messages.at(-1)?.role === 'tool') throw new Error('killed'); // after the tool, before the words
        return { toolCalls: [{ id: 'call', name: 'look_up', input: { what: 'it' } }] };
      },
    });
    const manager = new CheckpointManager({ storage });
    const crash = createRunner(crew, {
      manager,
      onCheckpoint: ({ trigger }) => {
        if (trigger === 'run_failed') throw Object.assign(new Error('gone'), { code: 'CLOSED' });
      },
    });
    await expect(crash.runner.run(TASK)).rejects.toThrow('gone');
    const later = createCrew(long);
    const result = await createRunner(later, { manager: new CheckpointManager({ storage }) }).runner.resume();
    expect(result.status).toBe('ended');
    expect(crew.calls).toEqual(['it']);
    expect(later.calls).toHaveLength(3);
  });

  test('[run.2] a failed model call ends the run with a recovery checkpoint; resuming repeats only what failed', async () => {
    let isDown = true;
    const crew = createCrew({
      speak: ({ messages }) => {
        if (messages.at(-1)?.role !== 'tool')
          return { toolCalls: [{ id: 'c', name: 'look_up', input: { what: 'it' } }] };
        return isDown ? { status: 503 } : 'Found it.';
      },
    });
    const { runner, manager } = createRunner(crew);
    const failed = await runner.run(TASK);
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'MODEL' } });
    const head = await manager.latest({ sessionId: 'crew' });
    expect(head).toMatchObject({ trigger: 'run_failed', type: 'recovery', status: 'error' });
    isDown = false;
    const asked = crew.model.requests.length;
    const result = await runner.resume();
    expect(result).toMatchObject({ status: 'ended' });
    expect(crew.calls).toEqual(['it', 'it']); // once in each round
    const again = crew.model.requests.slice(asked);
    expect(again[0]?.messages.at(-1)?.role).toBe('tool');
    expect(result.totals.modelCalls).toBe(crew.model.requests.length - 1);
  });

  test('[run.2] what the orchestrator was asked before a failure is neither asked nor counted twice', async () => {
    let isDown = true;
    const crew = createCrew({
      assess: (_, asked) => (asked === 1 ? 'Hm.' : isDown ? { status: 500 } : { satisfied: true }),
    });
    const { runner } = createRunner(crew);
    expect(await runner.run(TASK)).toMatchObject({ status: 'failed' });
    isDown = false;
    const result = await runner.resume();
    expect(result).toMatchObject({ status: 'ended', rounds: 1 });
    expect(crew.asked).toEqual(['facts', 'plan', 'progress', 'progress', 'progress', 'answer']);
    expect(result.totals.modelCalls).toBe(5);
  });

  test('[fleet.5] run begins a new session, resume goes on with one; neither takes the place of the other', async () => {
    const { runner } = createRunner(createCrew());
    await expect(runner.resume()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(runner.run({ task: ' ' })).rejects.toThrow('The task is empty.');
    await runner.run(TASK);
    await expect(runner.run(TASK)).rejects.toThrow('has a fleet already');
    expect(await runner.resume()).toMatchObject({ status: 'ended', end: { reason: 'satisfied' } });
  });

  test('[fleet.5] a program that is simply started again begins or goes on, and a fleet that has worked takes no other task', async () => {
    const storage = new InMemoryCheckpointStorage();
    const crew = createCrew({}, { planReview: true });
    const first = createRunner(crew, { storage }).runner;
    expect(await first.runOrResume(TASK)).toMatchObject({ status: 'waiting' });
    await first.answer({ requestId: 'plan-1', answer: 'approve', by: 'Ann' });
    const later = createRunner(createCrew({}, { planReview: true }), { storage }).runner;
    await expect(later.runOrResume({ task: 'Another task.' })).rejects.toThrow(
      'The fleet in session "crew" began with another task. Use resume()',
    );
    expect(await later.runOrResume(TASK)).toMatchObject({ status: 'ended' });
    const supervised = superviseFleet(later, { task: 'Another task.', settings: {} });
    await expect(supervised).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const other = createRunner(crew, { storage, sessionId: 'other' }).runner;
    await expect(other.run(TASK)).rejects.toThrow('This fleet has worked on a task already.');
  });

  test('[fleet.5] a task is the same when it is given again with the secret that was not stored', async () => {
    const storage = new InMemoryCheckpointStorage();
    const task = `Deploy with sk-${'a1B2c3D4'.repeat(5)} today.`;
    const start = () => createRunner(createCrew({}, { planReview: true }), { storage }).runner;
    expect(await start().runOrResume({ task })).toMatchObject({ status: 'waiting' });
    expect(await start().runOrResume({ task })).toMatchObject({ status: 'waiting' });
  });

  test('[run.2] a save that fails does not stop the fleet: it is reported, and the next one holds it', async () => {
    let saves = 0;
    const storage = new FullDisk(() => ++saves === 3);
    const { runner, manager } = createRunner(createCrew(long), { storage });
    const result = await runner.run(TASK);
    expect(result).toMatchObject({ status: 'ended', rounds: 5 });
    expect(result.failedSaves).toHaveLength(1);
    expect(parseFleetState(await manager.load(result.checkpointId ?? '')).fleet.rounds).toBe(5);
  });
});

describe('resuming with a prompt', () => {
  test('[run.10] the prompt is a user turn of the restored conversation, heard by all, and the request from then on', async () => {
    const crew = createCrew();
    const { runner, manager } = createRunner(crew);
    const first = await runner.run(TASK);
    const later = createCrew({ assess: (request) => ({ satisfied: countReplies(request) >= 3 }) });
    const result = await createRunner(later, { manager }).runner.resume({ prompt: 'And in French?' });
    expect(result).toMatchObject({ status: 'ended', rounds: first.rounds + 2, taskLedger: first.taskLedger });
    expect(result.messages.slice(0, first.messages.length + 1)).toEqual([
      ...first.messages,
      { name: 'user', content: 'And in French?' },
    ]);
    for (const agent of later.fleet.agents) expect(agent.history('orchestrator')).toEqual(result.messages);
    expect(later.asked[0]).toBe('progress');
    expect(lastQuestion(later.model.requests[0] ?? { messages: [] })).toContain(
      'Find out what is known.\n\nLater the user said: And in French?',
    );
    const { checkpoints: all } = await manager.list({ sessionId: 'crew' });
    expect(all.map(({ trigger }) => trigger)).toContain('resumed');
  });

  test('[run.10] limits count anew from the prompt, and more rounds can be granted', async () => {
    const crew = createCrew({ assess: () => ({}) }, { maxRoundCount: 2 });
    const { runner } = createRunner(crew);
    expect(await runner.run(TASK)).toMatchObject({ end: { reason: 'max_rounds' }, rounds: 2 });
    expect(await runner.resume()).toMatchObject({ end: { reason: 'max_rounds' }, rounds: 2 });
    expect(await runner.resume({ prompt: 'Once more.' })).toMatchObject({ end: { reason: 'max_rounds' }, rounds: 4 });
    expect(await runner.resume({ rounds: 3 })).toMatchObject({ end: { reason: 'max_rounds' }, rounds: 7 });
    expect(await runner.resume({ prompt: 'A bit.', rounds: 1 })).toMatchObject({ rounds: 8 });
    await expect(runner.resume({ rounds: 0 })).rejects.toThrow(
      '"rounds" of resume() must be a whole number of 1 or more',
    );
  });

  test('[run.10] a prompt survives a reset: it is part of the request', async () => {
    const crew = createCrew(
      { assess: (_, asked) => (asked === 4 ? { progress: false } : { satisfied: asked > 4 || asked === 3 }) },
      { maxStallCount: 0 },
    );
    const { runner } = createRunner(crew);
    await runner.run(TASK);
    const result = await runner.resume({ prompt: 'And in French?' });
    expect(result).toMatchObject({ resets: 1, status: 'ended' });
    expect(result.messages[0]?.content).toContain('Later the user said: And in French?');
  });

  test('[run.10] an empty prompt is refused', async () => {
    const { runner } = createRunner(createCrew());
    await runner.run(TASK);
    await expect(runner.resume({ prompt: '  ' })).rejects.toThrow('The prompt is empty.');
  });
});
