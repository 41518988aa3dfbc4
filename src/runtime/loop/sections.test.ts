import { expect, test } from 'vitest';
import { MINUTE, World } from '../../../test/loop/world.ts';
import type { LoopAgent, LoopEvent } from './index.ts';

const reportOf = (events: readonly LoopEvent[]) => events.find((event) => event.kind === 'started')?.report;

test('[Y29] an agent may keep sections itself: they are collected after each turn and handed back', async () => {
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

test('[Y29] what changes between turns is collected at checkpoints', async () => {
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

test('[Y30] a restore reports each section: problems, hooks that throw, secrets, unreadable and absent parts', async () => {
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
    '$.mailbox The queue moved.',
    expect.stringContaining('the file is locked'),
    expect.stringContaining('$.memory.session.apiKey The secret'),
  ]);
  expect(loop.state).toMatchObject({ task: null, mailbox: { processedCount: 4 }, context: { goals: ['g'] } });
});
