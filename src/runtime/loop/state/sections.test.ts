import { describe, expect, test } from 'vitest';
import { MINUTE, World } from '../../../../test/loop/world.ts';
import type { AgentMemory, LoopAgent, LoopEvent } from '../index.ts';
import type { MailboxState } from './mailbox.ts';
import { readSections } from './sections.ts';

const fail = (): never => {
  throw new Error('the hook broke');
};

const reportOf = (events: readonly LoopEvent[]) => events.find((event) => event.kind === 'started')?.report;

test('[loop.23] an agent may keep sections itself: they are collected after each turn and handed back', async () => {
  const world = new World();
  const files = new Map<string, number>();
  /** Keeps its memory in a place of its own, and knows that place only from `restore` and its own work. */
  const createAgent = (): LoopAgent => {
    let own: { [key: string]: unknown } = { restored: 'never' };
    return {
      sections: {
        memory: {
          collect: (memory) => ({ ...memory, session: { ...own } }),
          restore: ({ session }) => {
            own = { ...session };
            return undefined;
          },
        },
      },
      handle({ id }) {
        own[id] = true;
        files.set(id, (files.get(id) ?? 0) + 1);
      },
    };
  };
  const first = await world.start({ createAgent });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(first.loop.state.memory.session).toEqual({ m1: true });
  first.die(); // m1 is recorded, and in no checkpoint
  const second = await world.start({ createAgent });
  await second.loop.deliver({ id: 'm2', body: null });
  await world.clock.settle();
  expect(second.loop.state.memory.session).toEqual({ m1: true, m2: true });
  expect([...files.values()]).toEqual([1, 1]);
  expect(reportOf(second.events)).toMatchObject({ status: 'complete' });
});

test('[loop.23] what changes between turns is collected at checkpoints', async () => {
  const world = new World();
  let watched = 0;
  const createAgent = (): LoopAgent => ({
    sections: { context: { collect: (context) => ({ ...context, decisions: [watched] }) } },
    handle: () => undefined,
  });
  const first = await world.start({ createAgent });
  await world.clock.settle();
  watched = 7;
  await world.clock.pass(31 * MINUTE);
  first.die();
  const second = await world.start({ createAgent });
  expect(second.loop.state.context.decisions).toEqual([7]);
});

test('[loop.24] a restore reports each section: problems, hooks that throw, secrets, unreadable and absent parts', async () => {
  const world = new World();
  const session = await world.look().session('agent-1');
  await session.save({
    task: { id: 't', status: 'on fire', progress: 2 },
    mailbox: { pending: [], lastProcessed: null, processedCount: 4, recentIds: [], setAside: [] },
    context: { goals: ['g'], constraints: [], decisions: [], notes: [] },
    memory: { shortTerm: {}, session: { apiKey: 'abcdef123456' } },
  });
  const createAgent = (): LoopAgent => ({
    sections: {
      context: {
        restore: () => {
          throw new Error('the file is locked');
        },
      },
      mailbox: { restore: () => [{ path: '$.mailbox', problem: 'The queue moved.' }] },
    },
    handle: () => undefined,
  });
  const { loop, events } = await world.start({ createAgent });
  await world.clock.settle();
  const report = reportOf(events);
  expect(report?.status).toBe('partial');
  expect(report?.sections.map(({ section, status }) => `${section} ${status}`)).toEqual([
    'task partial',
    'mailbox partial',
    'context partial',
    'memory partial',
  ]);
  const problems = report?.sections.flatMap(({ problems: found }) =>
    found.map(({ path, problem }) => `${path} ${problem}`),
  );
  expect(problems).toEqual([
    expect.stringContaining('$.task.status It cannot be read'),
    expect.stringContaining('$.task.progress It cannot be read'),
    '$.mailbox The queue moved.',
    expect.stringContaining('the file is locked'),
    expect.stringContaining('$.memory.session.apiKey The secret'),
  ]);
  expect(loop.state).toMatchObject({ task: null, mailbox: { processedCount: 4 }, context: { goals: ['g'] } });
});

describe('the form of sections', () => {
  /** Sets what a message says; the handler works, the result may be impossible. */
  const setter = (): LoopAgent => ({
    handle({ id, body }, { state }) {
      state.context.decisions.push(id);
      Object.assign(state, structuredClone(body));
    },
  });
  const task = (progress: unknown) => ({ task: { id: 't', status: 'waiting', progress } });

  test.each([
    ['a progress of 50', task(50), '$.task.progress'],
    ['a progress that is no number', task(Number.NaN), '$.task.progress'],
    ['a status that there is not', { task: { id: 't', status: 'on fire', progress: 0 } }, '$.task.status'],
    [
      'a goal that is no text',
      { context: { goals: [42], constraints: [], decisions: [], notes: [] } },
      '$.context.goals.0',
    ],
    ['a context of no form', { context: { decisions: [] } }, '$.context.goals'],
    ['no memory', { memory: null }, '$.memory'],
  ])('[loop.24] a turn that leaves %s fails and changes nothing', async (_, body, path) => {
    const world = new World();
    const life = await world.start({ createAgent: setter, settings: { maxFailures: 1 } });
    await life.loop.deliver({ id: 'm1', body });
    await life.loop.deliver({ id: 'm2', body: {} });
    await world.clock.pass(MINUTE);
    const [failed] = life.loop.state.mailbox.setAside;
    expect(failed?.error).toMatchObject({ name: 'InvalidInputError', message: expect.stringContaining(path) });
    expect(life.loop.state).toMatchObject({ task: null, context: { decisions: ['m2'] }, memory: { shortTerm: {} } });
  });

  test('[loop.24] what a turn was allowed to leave is there after a restart; a sum of fractions is allowed', async () => {
    const world = new World();
    const life = await world.start({ createAgent: setter });
    const progress = 1.0000000000000007;
    await life.loop.deliver({ id: 'm1', body: task(progress) });
    await world.clock.pass(31 * MINUTE);
    life.die();
    const { loop, events } = await world.start({ createAgent: setter });
    await world.clock.settle();
    expect(loop.state.task).toEqual({ id: 't', status: 'waiting', progress });
    expect(reportOf(events)).toMatchObject({ status: 'complete' });
  });

  test('[loop.24] of a stored section only what is wrong is repaired, and each repair is told', () => {
    const { kept, problems } = readSections({
      task: { id: 't', status: 'active', progress: Number.NaN, details: 'of the agent' },
      mailbox: {
        pending: [{ id: 'm1' }, { body: 'nameless' }, { id: 'm2', body: 2, failures: 1 }],
        lastProcessed: 'm0',
        processedCount: 7,
        recentIds: ['m0', 5],
      },
      context: { goals: [42, 'g', {}], constraints: 'none', decisions: [1], notes: [{ text: 'n' }], mood: 'good' },
      memory: { shortTerm: { a: 1 }, session: [] },
    });
    expect(kept).toEqual({
      task: { id: 't', status: 'active', progress: 0, details: 'of the agent' },
      mailbox: {
        pending: [
          { id: 'm1', failures: 0 },
          { id: 'm2', body: 2, failures: 1 },
        ],
        lastProcessed: null,
        processedCount: 7,
        recentIds: ['m0'],
        setAside: [],
      },
      context: { goals: ['42', 'g'], constraints: [], decisions: [1], notes: [{ text: 'n' }], mood: 'good' },
      memory: { shortTerm: { a: 1 }, session: {} },
    });
    expect([...problems.values()].flat().map(({ path }) => path)).toEqual([
      '$.task.progress',
      '$.mailbox.pending.0.failures',
      '$.mailbox.pending.1.id',
      '$.mailbox.pending.1.failures',
      '$.mailbox.lastProcessed',
      '$.mailbox.recentIds.1',
      '$.mailbox.setAside',
      '$.context.goals.0',
      '$.context.goals.2',
      '$.context.constraints',
      '$.memory.session',
    ]);
    const clamped = (progress: number) => readSections({ task: { id: 't', status: 'done', progress } }).kept.task;
    expect([clamped(50), clamped(-1), clamped(0.5)].map((read) => read?.progress)).toEqual([1, 0, 0.5]);
  });
});

describe('hooks', () => {
  test('[loop.23] are called as methods of their section', async () => {
    class Notes {
      readonly #notes = new Map<string, unknown>();
      collect(memory: AgentMemory): AgentMemory {
        return { ...memory, session: Object.fromEntries(this.#notes) };
      }
      restore({ session }: AgentMemory): undefined {
        for (const [key, value] of Object.entries(session)) this.#notes.set(key, value);
      }
      note(id: string): void {
        this.#notes.set(id, true);
      }
    }
    const createAgent = (): LoopAgent => {
      const memory = new Notes();
      return { sections: { memory }, handle: ({ id }) => memory.note(id) };
    };
    const world = new World();
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    await first.loop.stop();
    const second = await world.start({ createAgent });
    await second.loop.deliver({ id: 'm2', body: null });
    await world.clock.settle();
    expect(second.loop.state.memory.session).toEqual({ m1: true, m2: true });
    expect(reportOf(second.events)).toMatchObject({ status: 'complete' });
  });

  const answers: [string, () => unknown][] = [
    ['throws', () => fail()],
    ['answers a promise', async () => ({ shortTerm: {}, session: {} })],
    ['answers a promise that is rejected', async () => fail()],
    ['answers nothing', () => undefined],
    ['answers something of another form', () => ({ session: 5 })],
  ];
  test.each(answers)('[loop.23] a `collect` that %s is told; what the loop has is kept', async (_, collect) => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      sections: {
        memory: { collect: collect as () => AgentMemory },
        mailbox: { collect: collect as () => MailboxState },
      },
      handle({ id }, { state }) {
        state.memory.session[id] = true;
      },
    });
    const life = await world.start({ createAgent });
    for (const id of ['m1', 'm2']) await life.loop.deliver({ id, body: null });
    await world.clock.pass(65 * MINUTE);
    expect(life.loop.state.memory.session).toEqual({ m1: true, m2: true });
    expect(life.loop.state.mailbox).toMatchObject({ pending: [], processedCount: 2, recentIds: ['m1', 'm2'] });
    const failed = life.events.filter((event) => event.kind === 'section_failed');
    expect(new Set(failed.map(({ section }) => section))).toEqual(new Set(['memory', 'mailbox']));
    expect((await world.history({ type: 'routine' })).length).toBe(3);
  });

  test('[loop.23] what was collected and cannot be saved is not kept', async () => {
    const world = new World();
    let isBroken = false;
    const createAgent = (): LoopAgent => ({
      sections: {
        memory: { collect: (memory) => ({ ...memory, session: { socket: isBroken ? () => 1 : 'closed' } }) },
      },
      handle: () => undefined,
    });
    const life = await world.start({ createAgent });
    await world.clock.settle();
    isBroken = true;
    await world.clock.pass(31 * MINUTE);
    expect((await world.history({ type: 'routine' })).length).toBe(2);
    expect(life.loop.state.memory.session).toEqual({ socket: 'closed' });
    expect(life.kinds()).toContain('section_failed');
  });

  test('[loop.23] a `restore` that answers something else than problems makes the report partial', async () => {
    const world = new World();
    const answer = (value: unknown) => ({ restore: () => value as undefined });
    const createAgent = (): LoopAgent => ({
      sections: { task: answer(true), context: answer([{ path: 5 }]), memory: answer(null), mailbox: answer([]) },
      handle: () => undefined,
    });
    const { loop, events } = await world.start({ createAgent });
    await world.clock.settle();
    expect(reportOf(events)?.sections.map(({ section, status }) => `${section} ${status}`)).toEqual([
      'task partial',
      'mailbox complete',
      'context partial',
      'memory complete',
    ]);
    expect(loop.status).toBe('running');
  });
});
