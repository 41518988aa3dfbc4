import { describe, expect, test } from 'vitest';
import type { LoopAgent, Turn } from '../../src/runtime/loop/index.ts';
import { HOUR, MINUTE, World } from './world.ts';

type Tools = { readonly [name: string]: (input: never, calls: number) => unknown };
type Script = {
  readonly tools: Tools;
  /** How many it gets. */
  readonly messages?: number;
  readonly handle?: (turn: Turn, number: number, sleep: (ms: number) => Promise<void>) => Promise<unknown>;
  readonly work?: (turn: Turn, sleep: (ms: number) => Promise<void>) => Promise<unknown>;
};

const TURNS = 20;
const PARTS = 'left right upper lower first last open'.split(' ');

/** Runs an agent through its messages, or its task for an hour, and returns what its watch said against it. */
async function alarmsOf({ tools, handle, work, messages = 3 }: Script): Promise<readonly string[]> {
  const world = new World();
  const sleep = (delayMs: number) =>
    new Promise<void>((resolve) => void world.clock.setTimer(resolve, { delayMs, keepsProcessAlive: true }));
  const calls: Record<string, number> = {};
  const made = Object.entries(tools).map(([name, run]) => {
    const count = (): number => (calls[name] = (calls[name] ?? 0) + 1);
    return [name, { run: (input: unknown) => run(input as never, count()) }];
  });
  const createAgent = (): LoopAgent => ({
    tools: Object.fromEntries(made),
    handle: async ({ body }, turn) => void (await handle?.(turn, Number(body), sleep)),
    ...(work && { work: async (turn: Turn) => void (await work(turn, sleep)) }),
  });
  const initial = { task: { id: 't', status: 'active', progress: 0 } } as const;
  const life = await world.start({ createAgent, ...(work && { initial }) });
  if (handle !== undefined)
    for (let n = 1; n <= messages; n++) {
      await life.loop.deliver({ id: `m${n}`, body: n });
      await world.clock.pass(MINUTE);
    }
  if (work) await world.clock.pass(HOUR);
  const said = life.events.flatMap((event) =>
    event.kind === 'drift'
      ? [event.reading.summary]
      : ['escalated', 'set_aside', 'task_failed'].includes(event.kind)
        ? [event.kind]
        : [],
  );
  if (handle !== undefined && said.length === 0) expect(life.loop.state.mailbox.processedCount).toBe(messages);
  return said;
}

const finish = ({ state }: Turn): void => void Object.assign(state.task ?? {}, { status: 'done', progress: 1 });
const advance = ({ state }: Turn, by = 1 / TURNS): void => {
  const { task } = state;
  if (task === null) return;
  const progress = Math.min(1, task.progress + by);
  Object.assign(task, { progress, status: progress > 0.99 ? 'done' : 'active' });
};

const HEALTHY: Record<string, Script> = {
  'an equal look-up before each of 20 messages': {
    messages: 20,
    tools: { rules: () => 'two days, prepaid', order: (n) => `order ${n} is ready` },
    handle: async (turn, n) => {
      await turn.call('rules', {});
      await turn.call('order', n);
    },
  },
  'one look-up, and nothing else': {
    messages: 20,
    tools: { rules: () => 'ok' },
    handle: (turn) => turn.call('rules', {}),
  },
  'a wait in a handler, equal answers, every second': {
    tools: { status: (_, calls) => (calls % 20 === 0 ? 'done' : 'pending') },
    handle: async (turn, _, sleep) => {
      while ((await turn.call('status', { job: 7 })) !== 'done') await sleep(1000);
    },
  },
  'a wait in a handler, equal long answers, every 2 seconds': {
    tools: { status: (_, calls) => (calls % 20 === 0 ? 'done' : 'the job is queued behind other jobs of the cluster') },
    handle: async (turn, _, sleep) => {
      while ((await turn.call('status', { job: 7 })) !== 'done') await sleep(2000);
    },
  },
  'a wait in a handler with a step, every half minute': {
    messages: 8,
    tools: {},
    handle: async (turn, n, sleep) => {
      if (n > 1) return;
      for (let at = 0; at < 10; at++) {
        await turn.step('status', () => 'pending', { input: { job: 7 } });
        await sleep(30_000);
      }
    },
  },
  'a wait in a handler by a tool, equal answers': {
    tools: { status: (_, calls) => (calls % 20 === 0 ? 'done' : 'queued behind other jobs'), sleep: () => 'slept' },
    handle: async (turn) => {
      while ((await turn.call('status', { job: 7 })) !== 'done') await turn.call('sleep', { seconds: 5 });
    },
  },
  'a queue that is emptied in a handler': {
    tools: { pop: (_, calls) => ({ id: `order-${'abcdefghij'[calls % 10]}${calls}x`, kind: 'book', state: 'new' }) },
    handle: async (turn) => {
      for (let at = 0; at < 20; at++) await turn.call('pop', { queue: 'orders' });
    },
  },
  'polling in a handler without a wait, a number changes': {
    tools: { status: (_, calls) => `${calls} of 100 rows` },
    handle: async (turn) => {
      for (let at = 0; at < 20; at++) await turn.call('status', { job: 7 });
    },
  },
  'a wait of the task, equal answers': {
    tools: { status: (_, calls) => (calls === 30 ? 'done' : 'pending') },
    work: async (turn) => {
      if ((await turn.call('status', { job: 7 })) === 'done') finish(turn);
    },
  },
  'a wait of the task beside 20 messages': {
    messages: 20,
    tools: { status: (_, calls) => (calls === 150 ? 'done' : 'pending') },
    handle: async ({ state }, n) => state.context.decisions.push(`answered ${n}`),
    work: async (turn) => {
      if ((await turn.call('status', { job: 7 })) === 'done') finish(turn);
    },
  },
  'a wait of the task beside 20 messages that change nothing': {
    messages: 20,
    tools: { status: (_, calls) => (calls === 150 ? 'done' : 'pending'), log: () => 'ok' },
    handle: (turn, n) => turn.call('log', n),
    work: async (turn) => {
      if ((await turn.call('status', { job: 7 })) === 'done') finish(turn);
    },
  },
  'a wait of the task, equal answers, with a pause of its own': {
    tools: { status: (_, calls) => (calls === 30 ? 'done' : 'pending') },
    work: async (turn, sleep) => {
      if ((await turn.call('status', { job: 7 })) === 'done') finish(turn);
      await sleep(5000);
    },
  },
  'polling by the task, changing answers': {
    tools: { status: (_, calls) => (calls === 30 ? 'done' : `${calls} of 30 rows`) },
    work: async (turn) => {
      if ((await turn.call('status', { job: 7 })) === 'done') finish(turn);
    },
  },
  'three failures, then success': {
    tools: {
      pay: (_, calls) => {
        if (calls % 4 !== 0) throw new Error('503 service unavailable');
        return 'paid';
      },
    },
    handle: async (turn, n) => {
      for (let tries = 1; ; tries++)
        try {
          return await turn.call('pay', n);
        } catch (error) {
          if (tries === 4) throw error;
        }
    },
  },
  'three failures with a pause and a note between, then success': {
    tools: {
      pay: (_, calls) => {
        if (calls % 4 !== 0) throw new Error('503 service unavailable');
        return 'paid';
      },
      log: () => 'ok',
    },
    handle: async (turn, n, sleep) => {
      for (let tries = 1; ; tries++)
        try {
          return await turn.call('pay', n);
        } catch {
          await turn.call('log', `pay ${n} failed, try ${tries}`);
          await sleep(1000 * 2 ** tries);
        }
    },
  },
  'three failures with a note between, no pause': {
    tools: {
      pay: (_, calls) => {
        if (calls % 4 !== 0) throw new Error('503 service unavailable');
        return 'paid';
      },
      log: () => 'ok',
    },
    handle: async (turn, n) => {
      for (let tries = 1; ; tries++)
        try {
          return await turn.call('pay', n);
        } catch {
          await turn.call('log', `pay ${n} failed, try ${tries}`);
        }
    },
  },
  'three failures of a step, then success': {
    tools: {},
    handle: async (turn, n, sleep) => {
      for (let tries = 1; ; tries++)
        try {
          return await turn.step(
            'pay',
            () => {
              if (tries < 4) throw new Error('503');
              return 'paid';
            },
            { input: n },
          );
        } catch {
          await sleep(1000);
        }
    },
  },
  'three failures of the work': {
    tools: {
      pay: (_, calls) => {
        if (calls % 3 !== 0) throw new Error('503 service unavailable');
        return 'paid';
      },
    },
    work: async (turn) => {
      await turn.call('pay', { item: turn.state.task?.progress });
      advance(turn);
    },
  },
  'mending by small patches, with the same test after each': {
    tools: {
      edit: () => 'ok',
      test: (_, calls) => {
        if (calls % 20 !== 0) throw new Error(`expected ${PARTS[calls % 7]} to be ${PARTS[calls % 5]}`);
        return 'all tests passed';
      },
    },
    handle: async (turn, n) => {
      for (let at = 0, isMended = false; !isMended; at++) {
        await turn.call('edit', { path: 'src/box.ts', old: PARTS[at % 7], new: `${PARTS[at % 3]} ${n * at}` });
        isMended = await turn.call('test', { command: 'npm test' }).then(
          () => true,
          () => false,
        );
      }
    },
  },
  'periodic work: the same step on a timer': {
    tools: { sync: () => 'synchronised all of the folders' },
    work: async (turn, sleep) => {
      await turn.call('sync', {});
      await sleep(10_000);
    },
  },
  'periodic work that counts': {
    tools: { sync: () => 'synchronised all of the folders' },
    work: async (turn, sleep) => {
      await turn.call('sync', {});
      turn.state.memory.session.runs = Number(turn.state.memory.session.runs ?? 0) + 1;
      await sleep(60_000);
    },
  },
  'periodic work without a tool': {
    tools: {},
    work: async (turn, sleep) => {
      await turn.step('sync', () => 'ok', { input: {} });
      turn.state.memory.session.runs = Number(turn.state.memory.session.runs ?? 0) + 1;
      await sleep(60_000);
    },
  },
  'a task whose turns each look up the same': {
    tools: { rules: () => 'two days, prepaid, by parcel', pack: (n) => `packed ${n}` },
    work: async (turn) => {
      await turn.call('rules', {});
      await turn.call('pack', Math.round((turn.state.task?.progress ?? 0) * TURNS));
      advance(turn);
    },
  },
  'a task whose turns each make one equal call': {
    tools: { next: () => 'ok' },
    work: async (turn) => {
      await turn.call('next', {});
      advance(turn);
    },
  },
  'paging in a handler': {
    tools: { list: ({ page }: { page: number }) => (page === 20 ? [] : [`row ${page}`]) },
    handle: async (turn) => {
      for (let page = 1; ; page++) if (((await turn.call('list', { page })) as string[]).length === 0) return;
    },
  },
  'paging by the task': {
    tools: { list: ({ page }: { page: number }) => (page === 20 ? [] : ['a', 'b']) },
    work: async (turn) => {
      const page = Number(turn.state.memory.session.page ?? 1);
      turn.state.memory.session.page = page + 1;
      if (((await turn.call('list', { page })) as string[]).length === 0) finish(turn);
    },
  },
  'a queue that is taken from until it is empty': {
    tools: { take: (_, calls) => (calls % 20 === 0 ? null : { id: calls, text: `item ${calls}` }) },
    handle: async (turn) => {
      while ((await turn.call('take', {})) !== null);
    },
  },
};

describe('healthy work is no drift, in a loop that runs', () => {
  test.each(Object.entries(HEALTHY))('[loop.28] %s', async (_, script) => {
    expect(await alarmsOf(script)).toEqual([]);
  });
});

describe('what is planted is found all the same', () => {
  const note = ({ state }: Turn): boolean => state.context.notes.some(({ kind }) => kind === 'drift');
  const PLANTED: Record<string, Script> = {
    'a handler that asks the same for ever': {
      tools: { look: () => 'nothing of the kind is on the shelf' },
      handle: async (turn) => {
        while (!note(turn)) await turn.call('look', { at: 'shelf' });
      },
    },
    'a handler that asks its model the same for ever': {
      tools: {},
      handle: async (turn) => {
        while (!note(turn)) await turn.step('model', () => 'I shall look again.', { input: 'What next?' });
      },
    },
    'a handler that asks two things in turn': {
      tools: { open: () => 'the door is open', close: () => 'the door is closed' },
      handle: async (turn) => {
        for (let at = 0; !note(turn); at++) await turn.call(at % 2 === 0 ? 'open' : 'close', 'a');
      },
    },
    'a task that makes the same call in every turn and writes that down': {
      tools: { search: () => 'three hits, none of them what was asked for' },
      work: async (turn) => {
        if (note(turn)) return finish(turn);
        await turn.call('search', { words: 'invoice' });
        turn.state.context.decisions.push('searched');
      },
    },
    'a task that polls with a tool and never hears anything else': {
      tools: { list: () => 'a b' },
      work: async (turn) => (note(turn) ? finish(turn) : void (await turn.call('list', {}))),
    },
    'a task whose model says the same in every turn': {
      tools: {},
      work: async (turn) => {
        if (note(turn)) return finish(turn);
        await turn.step('model', () => 'I shall go on.', { input: 'What next?' });
      },
    },
    'a task that does nothing': { tools: {}, work: async (turn) => (note(turn) ? finish(turn) : undefined) },
    'a call that fails for ever, with another one between': {
      tools: {
        pay: () => {
          throw new Error('402 payment required');
        },
        log: () => 'ok',
      },
      handle: async (turn) => {
        for (let at = 0; at < 30 && !note(turn); at++) {
          await turn.call('pay', 17).catch(() => undefined);
          await turn.call('log', { try: at });
        }
      },
    },
  };

  test.each(Object.entries(PLANTED))('[loop.28] %s', async (_, script) => {
    const [alarm] = await alarmsOf(script);
    expect(alarm).toContain('shows signs of drift');
  });
});
