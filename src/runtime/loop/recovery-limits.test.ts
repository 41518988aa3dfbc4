import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { StorageError } from '../../core/errors.ts';
import type { Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type FaultPlan, faultyStorage } from '../../testing/index.ts';
import type { AgentTask, DriftReading, DriftWatch, LoopAgent } from './index.ts';

/** A watch that says what the test says until it is reset. */
class ScriptedWatch implements DriftWatch {
  status: DriftReading['status'] = 'healthy';

  observe(): DriftReading {
    const isWell = this.status === 'healthy';
    return {
      status: this.status,
      score: isWell ? 0 : 1,
      signals: [],
      summary: isWell ? '' : 'It asks the same again.',
    };
  }

  async assess(): Promise<DriftReading> {
    return this.observe();
  }

  snapshot(): unknown {
    return null;
  }

  restore(): void {
    this.reset();
  }

  reset(): void {
    this.status = 'healthy';
  }
}

describe('a task after a drift', () => {
  /** Takes tasks from its messages; its work drifts once if the test says so. */
  async function drifted({ before, since }: { before: AgentTask | null; since: AgentTask | null }) {
    const world = new World();
    const watch = new ScriptedWatch();
    const worked: string[] = [];
    let isDriftDue = false;
    const createAgent = (): LoopAgent => ({
      handle({ body }, { state }) {
        state.task = body === null ? null : { ...(body as AgentTask) };
        if (isDriftDue) watch.status = 'drifting';
        isDriftDue = false;
      },
      work({ state }) {
        worked.push(`${state.task?.id} from ${state.task?.progress}`);
        if (state.task !== null) state.task = { ...state.task, status: 'waiting', progress: 0.5 };
      },
    });
    const life = await world.start({ createAgent, drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: before });
    await world.clock.pass(31 * MINUTE); // saved healthy
    worked.length = 0;
    isDriftDue = true;
    await life.loop.deliver({ id: 'm2', body: since });
    await world.clock.pass(MINUTE);
    expect(life.kinds()).toContain('restored');
    return { task: life.loop.state.task, worked, notes: life.loop.state.context.notes };
  }

  const task = (id: string, part: Partial<AgentTask> = {}): AgentTask => ({
    id,
    status: 'active',
    progress: 0,
    ...part,
  });

  test('[loop.19] one that was given since stays, from its beginning, and goes on', async () => {
    const given = task('new', { progress: 0.8, details: { of: 'm2' } });
    const none = await drifted({ before: null, since: given });
    expect(none.worked).toEqual(['new from 0']);
    expect(none.task).toEqual({ ...given, status: 'waiting', progress: 0.5 });
    expect(none.notes[0]).toMatchObject({ handledSince: ['m2'], text: expect.stringContaining('Your task "new"') });
    const other = await drifted({ before: task('old'), since: { ...given, status: 'waiting' } });
    expect(other.worked).toEqual(['new from 0']);
  });

  test('[loop.19] also if its work is what drifted, as the built-in detector sees it', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      tools: { search: { run: () => 'nothing found' } },
      handle(_, { state }) {
        state.task = task('find it');
      },
      async work(turn) {
        while (turn.state.context.notes.length === 0) await turn.call('search', { query: 'the same' });
        turn.state.task = task('find it', { status: 'done', progress: 1 });
      },
    });
    const life = await world.start({ createAgent });
    await world.clock.pass(5 * MINUTE);
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.kinds().filter((kind) => kind === 'restored')).toEqual(['restored']);
    expect(life.loop.state).toMatchObject({ task: { id: 'find it', status: 'done' }, mailbox: { processedCount: 1 } });
  });

  test('[loop.19] so does one that was over and was given again', async () => {
    const { worked } = await drifted({ before: task('old', { status: 'done', progress: 1 }), since: task('old') });
    expect(worked).toEqual(['old from 0']);
  });

  test('[loop.19] one that the checkpoint has goes back with it', async () => {
    const { worked, task: now, notes } = await drifted({ before: task('old'), since: task('old', { progress: 0.9 }) });
    expect(worked).toEqual([]);
    expect(now).toEqual(task('old', { status: 'waiting', progress: 0.5 }));
    expect(notes[0]?.text).not.toContain('Your task');
    expect((await drifted({ before: task('old'), since: null })).task?.id).toBe('old');
  });

  test('[loop.19] what is over stays over', async () => {
    const done = task('new', { status: 'done', progress: 1 });
    expect(await drifted({ before: task('old'), since: done })).toMatchObject({ task: done, worked: [] });
  });
});

test('[loop.24] what could not be read of the checkpoint that a drift goes back to is reported', async () => {
  const world = new World();
  const watch = new ScriptedWatch();
  const session = await world.look().session('agent-1');
  await session.save(
    {
      task: { id: 't', status: 'waiting', progress: 50 },
      mailbox: { pending: [], lastProcessed: null, processedCount: 0, recentIds: [], setAside: [] },
      context: { goals: [42, null, 'g'], constraints: [], decisions: ['kept'], notes: [] },
      memory: { shortTerm: {}, session: {} },
    },
    { agentId: 'agent-1', type: 'routine', metadata: { health: 'healthy' } },
  );
  await session.close();
  const createAgent = (): LoopAgent => ({
    handle() {
      watch.status = 'drifting';
    },
  });
  const life = await world.start({ createAgent, drift: { watch } });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  const restored = life.events.find((event) => event.kind === 'restored');
  expect(restored?.report.status).toBe('partial');
  expect(restored?.report.sections.map(({ problems }) => problems.map(({ path }) => path))).toEqual([
    ['$.task.progress'],
    [],
    ['$.context.goals.0', '$.context.goals.1'],
    [],
  ]);
  expect(life.loop.state).toMatchObject({
    task: { id: 't', progress: 1 },
    context: { goals: ['42', 'g'], decisions: ['kept'] },
  });
});

describe('a storage that fails during a recovery', () => {
  const drifter = (watch: ScriptedWatch) => (): LoopAgent => ({
    handle({ id, body }, { state }) {
      state.context.decisions.push(id);
      if (body === 'drift') watch.status = 'drifting';
    },
  });

  test('[loop.22] a restore that was not stored is done again before any turn is taken', async () => {
    const plan = { isFailing: true };
    const storage = new Proxy(new InMemoryCheckpointStorage(), {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        if (name !== 'commit') return value.bind(target);
        return async (commit: Commit) => {
          if (plan.isFailing && commit.checkpoint?.header.trigger === 'restored') throw new StorageError('No space.');
          return target.commit(commit);
        };
      },
    });
    const world = new World(storage);
    const watch = new ScriptedWatch();
    const life = await world.start({ createAgent: drifter(watch), drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    await life.loop.deliver({ id: 'm2', body: 'drift' });
    await life.loop.deliver({ id: 'm3', body: null });
    await world.clock.pass(5000);
    expect(life.kinds()).toContain('storage_failed');
    expect(life.loop.state.mailbox.pending.map(({ id }) => id)).toEqual(['m3']);
    plan.isFailing = false;
    await world.clock.pass(5000);
    expect(life.kinds().filter((kind) => kind === 'restored')).toEqual(['restored']);
    expect(life.loop.state.loop.restoredAtMs.length).toBe(1);
    expect(life.loop.state.context.decisions).toEqual(['m1', 'm3']);
    life.die();
    const { loop } = await world.start({ createAgent: drifter(watch), drift: { watch } });
    await world.clock.settle();
    expect(loop.state.context.decisions).toEqual(['m1', 'm3']);
  });

  test('[loop.21] a damaged checkpoint cannot be gone back to: a person is called', async () => {
    const plan: FaultPlan = {};
    const world = new World(faultyStorage(new InMemoryCheckpointStorage(), plan));
    const watch = new ScriptedWatch();
    const life = await world.start({ createAgent: drifter(watch), drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    const [, healthy] = await world.history();
    plan.alteredRoots = healthy === undefined ? [] : [healthy.id];
    await life.loop.deliver({ id: 'm2', body: 'drift' });
    await world.clock.pass(MINUTE);
    expect(life.loop.status).toBe('escalated');
    expect(life.loop.state.loop.escalation?.reason).toContain(`${healthy?.id} is damaged`);
    expect(await life.loop.deliver({ id: 'm3', body: null })).toBe(true);
  });
});

describe('an agent that waits for a person', () => {
  const driftingFor = (watch: ScriptedWatch) => (): LoopAgent => ({
    handle() {
      watch.status = 'drifting';
    },
  });

  test.each(['in-process', 'exit'] as const)('[loop.12] is not declared healthy by a refresh (%s)', async (refresh) => {
    const world = new World();
    const watch = new ScriptedWatch();
    const settings = { maxRestoresPerDay: 1, restoreCooldownMs: 1 };
    const life = await world.start({ createAgent: driftingFor(watch), drift: { watch }, settings, refresh });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    const tagged = (await world.history()).find(({ trigger }) => trigger === 'restored');
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(MINUTE);
    expect(life.loop.status).toBe('escalated');
    await world.clock.pass(7 * HOUR);
    expect(life.loop.status).toBe('escalated');
    expect(life.kinds()).not.toContain('refreshed');
    const routine = (await world.history({ type: 'routine' })).map(({ metadata }) => metadata?.health);
    expect(routine).toEqual(['drifting', 'drifting', 'drifting']);
    expect(await world.look().tags('agent-1')).toEqual([{ name: 'last-healthy', checkpointId: tagged?.id }]);
    await life.loop.resume();
    await world.clock.pass(3 * HOUR);
    expect(life.kinds().includes('refreshed') || life.loop.status === 'ended').toBe(true); // and then they go on
  });
});

describe('an agent that cannot be made', () => {
  /** Makes agents while it is allowed to. */
  const factory = (watch: ScriptedWatch) => {
    const made = { count: 0, isBroken: false };
    const createAgent = (): LoopAgent => {
      if (made.isBroken) throw new Error('no memory left');
      made.count++;
      return {
        handle({ id, body }, { state }) {
          state.memory.shortTerm.last = id;
          state.context.decisions.push(`${id} by ${made.count}`);
          if (body === 'drift') watch.status = 'drifting';
        },
      };
    };
    return { made, createAgent };
  };

  test('[loop.22] at a refresh: it is told, the old one goes on, and the next refresh tries again', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const { made, createAgent } = factory(watch);
    const life = await world.start({ createAgent, drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: null });
    made.isBroken = true;
    await world.clock.pass(2 * HOUR + MINUTE);
    expect(life.events.filter(({ kind }) => kind === 'agent_failed')).toEqual([
      { kind: 'agent_failed', trigger: 'refresh', error: { name: 'Error', message: 'no memory left' } },
    ]);
    expect(life.loop.state.memory.shortTerm).toEqual({ last: 'm1' });
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.settle();
    expect(life.loop.state.context.decisions).toEqual(['m1 by 1', 'm2 by 1']);
    made.isBroken = false;
    await world.clock.pass(2 * HOUR);
    expect(life.kinds()).toContain('refreshed');
    expect(made.count).toBe(2);
  });

  test('[loop.22] after a drift: no turn is taken; it is tried again, and then a person is called', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const { made, createAgent } = factory(watch);
    const settings = { retryDelayMs: 10_000 };
    const life = await world.start({ createAgent, drift: { watch }, settings });
    await world.clock.pass(MINUTE);
    made.isBroken = true;
    await life.loop.deliver({ id: 'm1', body: 'drift' });
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(5000);
    expect(life.kinds().filter((kind) => kind === 'agent_failed').length).toBe(1);
    made.isBroken = false;
    await world.clock.pass(10_000);
    expect(life.kinds()).toContain('restored');
    expect(life.loop.state.context.decisions).toEqual(['m2 by 2']);

    made.isBroken = true;
    await world.clock.pass(HOUR);
    await life.loop.deliver({ id: 'm3', body: 'drift' });
    await world.clock.pass(MINUTE);
    expect(life.kinds().filter((kind) => kind === 'agent_failed').length).toBe(4);
    expect(life.loop.status).toBe('escalated');
    expect(life.loop.state.loop.restoredAtMs.length).toBe(1); // one that did not happen is not counted
  });
});

test('[loop.16] turns and operations that fail share one cool-down', async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({
    async handle({ body }, turn) {
      const fail = () => {
        throw new Error('it failed');
      };
      if (body === 'turn') fail();
      await turn.guard('g', fail);
    },
  });
  const settings = { maxFailures: 1 };
  const life = await world.start({ createAgent, settings, drift: false });
  const minutes = [0, 4, 6, 10, 12];
  for (const [at, minute] of minutes.entries()) {
    await world.clock.pass((minute - (minutes[at - 1] ?? 0)) * MINUTE);
    await life.loop.deliver({ id: `m${minute}`, body: minute === 6 ? 'turn' : 'operation' });
    await world.clock.settle();
  }
  const startMs = world.clock.now() - 12 * MINUTE;
  const saved = (await world.history({ type: 'recovery' })).map(
    ({ trigger, timestamp }) => `${trigger} ${(timestamp.getTime() - startMs) / MINUTE}`,
  );
  expect(saved).toEqual(['operation_failed 0', 'error 6', 'operation_failed 12']);
  const failed = life.events.filter((event) => event.kind === 'operation' && event.status === 'failed');
  expect(failed.length).toBe(4); // all are told
});

test('[loop.24] a session whose state is no object is begun anew, and the report says so', async () => {
  const world = new World();
  const session = await world.look().session('agent-1');
  await session.save(null);
  await session.close();
  const life = await world.start({ createAgent: () => ({ handle: () => undefined }) });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(31 * MINUTE);
  expect(life.events.find((event) => event.kind === 'started')?.report.status).toBe('partial');
  expect(life.loop.state).toMatchObject({ task: null, mailbox: { processedCount: 1 } });
});
