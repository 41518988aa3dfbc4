import { expect, test } from 'vitest';
import { HOUR, type Life, MINUTE, World } from '../../../../test/loop/world.ts';
import { LATER } from '../../../../test/support/later.ts';
import { STRIDE } from '../../../../test/support/trials.ts';
import { StorageError } from '../../../core/errors.ts';
import type { LoopAgent, LoopTool, Turn } from '../index.ts';
import type { OperationOutcome } from './operation.ts';

/** Tools that leave lines outside, and take them back. */
function toolsOn(outside: string[]): { readonly [name: string]: LoopTool } {
  const reversible = (name: string): LoopTool => ({
    run: (input) => {
      outside.push(`${name} ${input}`);
      return `${name}-${input}`;
    },
    undo: ({ input, result }) => void outside.push(`undo ${name} ${input} ${result}`),
  });
  return {
    copy: reversible('copy'),
    move: reversible('move'),
    mail: { run: (input) => void outside.push(`mail ${input}`) },
    break: {
      run: () => {
        throw new RangeError('broken');
      },
    },
    stuck: {
      run: (input) => void outside.push(`stuck ${input}`),
      undo: () => {
        throw new Error('cannot undo');
      },
    },
  };
}

function guarding(outside: string[], act: (turn: Turn) => Promise<unknown>): () => LoopAgent {
  return () => ({ tools: toolsOn(outside), handle: async (_, turn) => void (await act(turn)) });
}

test('[loop.15] an operation that succeeds leaves no checkpoint behind once retention ran', async () => {
  const world = new World();
  const outside: string[] = [];
  let outcome: OperationOutcome<unknown> | undefined;
  const createAgent = guarding(outside, async (turn) => {
    outcome = await turn.guard('deploy', (operation) => operation.call('copy', 'a'));
    turn.state.memory.session.isDeployed = true;
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(outcome).toEqual({ status: 'done', value: 'copy-a' });
  const [before] = await world.history({ type: 'pre_operation' });
  expect(before).toMatchObject({ trigger: 'guard', metadata: { operation: 'deploy', health: 'healthy' } });
  await world.clock.pass(30 * MINUTE);
  expect(await world.history({ type: 'pre_operation' })).toEqual([]);
  expect(await world.history({ type: 'recovery' })).toEqual([]);
});

test('[loop.16] one that fails is saved for recovery; its calls are undone newest first', async () => {
  const world = new World();
  const outside: string[] = [];
  let outcome: OperationOutcome<unknown> | undefined;
  const createAgent = guarding(outside, async (turn) => {
    const { context } = turn.state; // held across the operation, as handlers do
    context.decisions.push('before');
    outcome = await turn.guard('deploy', async (operation) => {
      for (const [tool, input] of [
        ['copy', 1],
        ['mail', 2],
        ['stuck', 3],
        ['copy', 4],
        ['break', 5],
      ] as const)
        await operation.call(tool, input);
    });
    context.decisions.push('after');
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(outside).toEqual(['copy 1', 'mail 2', 'stuck 3', 'copy 4', 'undo copy 4 copy-4', 'undo copy 1 copy-1']);
  const undone = [
    { tool: 'copy', status: 'undone' },
    { tool: 'stuck', status: 'failed', error: { name: 'Error', message: 'cannot undo' } },
    { tool: 'mail', status: 'kept' },
    { tool: 'copy', status: 'undone' },
  ];
  expect(outcome).toEqual({ status: 'rolled_back', error: { name: 'RangeError', message: 'broken' }, undone });
  expect(life.events).toContainEqual({ kind: 'operation', name: 'deploy', status: 'rolled_back', undone });
  expect(life.loop.state.context.decisions).toEqual(['before', 'after']);
  const [recovery] = await world.history({ type: 'recovery' });
  expect(recovery).toMatchObject({ trigger: 'operation_failed', note: 'RangeError: broken' });
});

test('[loop.16] with rethrow nothing is undone, and the turn gets the error', async () => {
  const world = new World();
  const outside: string[] = [];
  let thrown: unknown;
  const createAgent = guarding(outside, async (turn) => {
    const guarded = turn.guard(
      'deploy',
      async (operation) => {
        await operation.call('copy', 1);
        await operation.call('break', 2);
      },
      { onFailure: 'rethrow' },
    );
    thrown = await guarded.catch((error: unknown) => error);
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(thrown).toBeInstanceOf(RangeError);
  expect(outside).toEqual(['copy 1']);
});

test(
  '[loop.17] a crash at any commit of an operation and its rollback: each call and each undo happens once',
  LATER,
  async () => {
    const run = async (dieAt: number) => {
      const world = new World();
      const outside: string[] = [];
      const createAgent = guarding(outside, async (turn) => {
        await turn.guard('deploy', async (operation) => {
          for (const tool of ['copy', 'move', 'break']) await operation.call(tool, 1);
        });
        await turn.step('end', () => outside.push('end'));
      });
      const first = await world.start({ createAgent });
      await world.clock.settle();
      first.dieAtCommit(first.commits + dieAt);
      await Promise.race([first.loop.deliver({ id: 'm1', body: null }), first.death]);
      await world.clock.settle();
      const isOver = first.loop.state.mailbox.processedCount === 1;
      first.die();
      const second = await world.start({ createAgent });
      await second.loop.deliver({ id: 'm1', body: null });
      await world.clock.pass(MINUTE);
      expect(second.loop.state.mailbox, `died at commit ${dieAt}`).toMatchObject({ processedCount: 1, setAside: [] });
      const befores = await world.history({ type: 'pre_operation' });
      expect(befores.length, `died at commit ${dieAt}`).toBe(1);
      return { outside, isOver };
    };
    const expected = ['copy 1', 'move 1', 'undo move 1 move-1', 'undo copy 1 copy-1', 'end'];
    let isOver = false;
    let dieAt = 1;
    for (; !isOver; dieAt += STRIDE / 2) {
      const result = await run(dieAt);
      const seen = [...new Set(result.outside)];
      expect(seen, `died at commit ${dieAt}`).toEqual(expected);
      // What ran, but was not recorded when the process died, runs again: at most one call.
      expect(result.outside.length - seen.length, `died at commit ${dieAt}`).toBeLessThanOrEqual(1);
      isOver = result.isOver;
    }
    expect(dieAt).toBeGreaterThan(15);
  },
);

test('[loop.15] the checkpoint of a failed operation stays until one of its name succeeds; there is one per name', async () => {
  const world = new World();
  const outside: string[] = [];
  let isBroken = true;
  const createAgent = guarding(outside, (turn) =>
    turn.guard('deploy', (operation) => operation.call(isBroken ? 'break' : 'copy', 1)),
  );
  const first = await world.start({ createAgent });
  for (const id of ['m1', 'm2', 'm3']) await first.loop.deliver({ id, body: null });
  await world.clock.pass(HOUR);
  expect((await world.history({ type: 'pre_operation' })).length).toBe(1);
  first.die();
  isBroken = false;
  const second = await world.start({ createAgent });
  await second.loop.deliver({ id: 'm4', body: null });
  await world.clock.pass(HOUR);
  expect(await world.history({ type: 'pre_operation' })).toEqual([]);
});

test('[input.1] a tool that does not exist is refused by name', async () => {
  const world = new World();
  let thrown: unknown;
  const createAgent = guarding([], async (turn) => {
    thrown = await turn.call('fax', 1).catch((error: unknown) => error);
  });
  const { loop } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(thrown).toMatchObject({ code: 'INVALID_INPUT' });
  expect(String(thrown)).toContain('copy, move, mail');
});

/** Handles one message; returns how its operation ended. */
async function guardOnce(
  createTools: (outside: string[]) => { readonly [name: string]: LoopTool },
  act: (turn: Turn) => Promise<unknown>,
): Promise<{ readonly outside: string[]; readonly outcome: unknown }> {
  const world = new World();
  const outside: string[] = [];
  let outcome: unknown;
  const createAgent = (): LoopAgent => ({
    tools: createTools(outside),
    async handle(_, turn) {
      outcome = await act(turn).catch((error: unknown) => error);
    },
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(MINUTE);
  expect(life.loop.state.mailbox.processedCount).toBe(1);
  return { outside, outcome };
}

const later = () => new Promise<void>((resolve) => setImmediate(resolve));

function withSlow(outside: string[]): { readonly [name: string]: LoopTool } {
  const tools = toolsOn(outside);
  const slow: LoopTool = {
    async run(input) {
      for (let turns = 0; turns < 3; turns++) await later();
      outside.push(`slow ${input}`);
    },
    undo: ({ input }) => void outside.push(`undo slow ${input}`),
  };
  return { ...tools, slow };
}

test('[loop.17] calls under way when an operation fails are waited for and undone; no other begins', async () => {
  const refused: unknown[] = [];
  const { outside, outcome } = await guardOnce(withSlow, (turn) =>
    turn.guard('deploy', async (operation) => {
      const branch = async () => {
        await operation.call('slow', 1);
        await operation.call('copy', 'too late').catch((error: unknown) => refused.push(error));
      };
      await Promise.all([branch(), operation.call('copy', 2), operation.call('break', 3)]);
    }),
  );
  expect(outside).toEqual(['copy 2', 'slow 1', 'undo slow 1', 'undo copy 2 copy-2']);
  expect(outcome).toMatchObject({
    status: 'rolled_back',
    undone: [
      { tool: 'slow', status: 'undone' },
      { tool: 'copy', status: 'undone' },
    ],
  });
  expect(refused).toMatchObject([{ code: 'CLOSED' }]);
});

test('[loop.17] an operation inside another is refused, one side by side with another is not', async () => {
  const { outside, outcome } = await guardOnce(withSlow, async (turn) => {
    const aside = turn.guard('aside', (operation) => operation.call('copy', 1));
    const failing = turn.guard('outer', async (operation) => {
      await operation.call('slow', 2);
      await turn.guard('inner', (within) => within.call('copy', 3));
    });
    return Promise.all([aside, failing]);
  });
  expect(outside).toEqual(['copy 1', 'slow 2', 'undo slow 2']);
  const error = { code: 'INVALID_INPUT', message: expect.stringContaining('"inner" is inside another one') };
  expect(outcome).toMatchObject([{ status: 'done' }, { status: 'rolled_back', error }]);
});

test('[loop.3] another attempt at a message tries a failed operation again, with new calls for those that were undone', async () => {
  const world = new World();
  const keys: string[] = [];
  const kept: string[] = [];
  const createAgent = (): LoopAgent => ({
    tools: {
      charge: { run: (_, { idempotencyKey }) => void keys.push(idempotencyKey), undo: () => undefined },
      mail: { run: (_, { idempotencyKey }) => void kept.push(idempotencyKey) },
    },
    async handle(_, turn) {
      const outcome = await turn.guard('order', async (operation) => {
        await operation.call('charge', { order: 17 });
        await operation.call('mail', { order: 17 });
        if (turn.attempt === 1) throw new Error('503');
        return 'shipped';
      });
      if (outcome.status === 'rolled_back') throw new Error('try again');
      turn.state.context.decisions.push(outcome.value);
    },
  });
  const { loop } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(MINUTE);
  expect(loop.state.context.decisions).toEqual(['shipped']);
  expect(new Set(keys).size).toBe(2); // charged, refunded, charged anew
  expect(kept.length).toBe(1); // a mail cannot be taken back, so it is not sent again
});

test('[loop.17] a message that is given up in the middle of a rollback says so, and its retry finishes the rollback', async () => {
  const world = new World();
  const outside: string[] = [];
  let isDeadly = true;
  const createAgent = (): LoopAgent => ({
    tools: {
      ...toolsOn(outside),
      write: {
        run: (input) => void outside.push(`write ${input}`),
        undo: ({ input }) => {
          outside.push(`undo ${input}`);
          return isDeadly ? new Promise<void>(() => undefined) : undefined;
        },
      },
    },
    handle: async (_, turn) =>
      void (await turn.guard('release', async (operation) => {
        await operation.call('write', 'a');
        await operation.call('write', 'b');
        await operation.call('break', 'c');
      })),
  });
  let life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  for (let death = 1; death <= 3; death++) {
    await world.clock.settle();
    life.die();
    isDeadly = death < 3;
    life = await world.start({ createAgent });
  }
  await world.clock.settle();
  expect(life.loop.state.mailbox.setAside).toMatchObject([
    { error: { name: 'Interrupted', message: expect.stringMatching(/The rollback of "release" is not finished/) } },
  ]);
  await life.loop.resume({ retry: ['m1'] });
  await world.clock.pass(MINUTE);
  expect(outside.at(-1)).toBe('undo a');
  expect(life.loop.state.mailbox.setAside).toEqual([]);
});

test.each(['at-least-once', 'at-most-once'] as const)(
  '[loop.17] a message (%s) is set aside once the rollback is finished in which its process died',
  async (delivery) => {
    const world = new World();
    const outside: string[] = [];
    let deaths = delivery === 'at-most-once' ? 1 : 3;
    const createAgent = (): LoopAgent => ({
      tools: {
        ...toolsOn(outside),
        write: {
          run: (input) => void outside.push(`write ${input}`),
          undo: ({ input }) => {
            outside.push(`undo ${input}`);
            return deaths > 0 ? new Promise<void>(() => undefined) : undefined;
          },
        },
      },
      handle: async (_, turn) => {
        if (deaths > 1) return new Promise<void>(() => undefined);
        await turn.guard('release', async (operation) => {
          for (const [tool, input] of [
            ['write', 'a'],
            ['write', 'b'],
            ['break', 'c'],
          ] as const)
            await operation.call(tool, input);
        });
      },
    });
    let life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null, delivery });
    while (deaths > 0) {
      await world.clock.settle();
      life.die();
      deaths--;
      life = await world.start({ createAgent });
    }
    await world.clock.settle();
    const [aside] = life.loop.state.mailbox.setAside;
    expect(aside?.error).toMatchObject({ name: 'Interrupted', message: expect.not.stringContaining('not finished') });
    expect(outside).toEqual(['write a', 'write b', 'undo b', 'undo b', 'undo a']);
    await life.loop.resume({ retry: ['m1'] });
    await world.clock.pass(MINUTE);
    expect(outside.slice(5)).toEqual([]); // how the operation ended is known
    expect(life.loop.state.mailbox).toMatchObject({ processedCount: 1, setAside: [] });
  },
);

test('[loop.17] an attempt that fails without the calls of one that died in the operation undoes them, too', async () => {
  const world = new World();
  const outside: string[] = [];
  let outcome: OperationOutcome<unknown> | undefined;
  let isFirst = true;
  const createAgent = guarding(outside, async (turn) => {
    await turn.call('copy', 'b'); // like one of the operation, and none of it
    outcome = await turn.guard('deploy', async (operation) => {
      if (!isFirst) await operation.call('move', 2);
      if (!isFirst) throw new Error('no stock');
      for (const [tool, input] of [
        ['copy', 'a'],
        ['copy', 'b'],
        ['move', 2],
      ] as const)
        await operation.call(tool, input);
      await new Promise(() => undefined);
    });
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  life.die();
  isFirst = false;
  await world.start({ createAgent });
  await world.clock.settle();
  const [made, undoes] = [outside.slice(0, 4), outside.slice(4)];
  expect(made).toEqual(['copy b', 'copy a', 'copy b', 'move 2']);
  expect(undoes).toEqual(['undo move 2 move-2', 'undo copy b copy-b', 'undo copy a copy-a']);
  const undone = ['move', 'copy', 'copy'].map((tool) => ({ tool, status: 'undone' }));
  expect(outcome).toMatchObject({ status: 'rolled_back', undone });
});

test('[loop.17] a call of an attempt that died stands, and is told, if its tool is gone', async () => {
  const world = new World();
  const outside: string[] = [];
  let outcome: OperationOutcome<unknown> | undefined;
  let tools = toolsOn(outside);
  const createAgent = (): LoopAgent => ({
    tools,
    async handle(_, turn) {
      outcome = await turn.guard('deploy', async (operation) => {
        await operation.call('copy', 'a');
        await new Promise(() => undefined);
      });
    },
  });
  const life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  life.die();
  tools = {};
  await world.start({ createAgent });
  await world.clock.settle();
  expect(outcome).toMatchObject({ status: 'rolled_back', undone: [{ tool: 'copy', status: 'kept' }] });
});

test('[loop.16] an operation whose value cannot be saved has failed, and its calls are undone', async () => {
  const { outside, outcome } = await guardOnce(toolsOn, (turn) =>
    turn.guard('deploy', async (operation) => {
      await operation.call('copy', 1);
      return () => 1;
    }),
  );
  expect(outside).toEqual(['copy 1', 'undo copy 1 copy-1']);
  expect(outcome).toMatchObject({ status: 'rolled_back', error: { code: 'INVALID_INPUT' } });
});

test('[loop.16] an undo is called as the method of its tool', async () => {
  class Shelf {
    readonly #outside: string[];
    constructor(outside: string[]) {
      this.#outside = outside;
    }
    run(input: unknown) {
      this.#outside.push(`put ${input}`);
    }
    undo({ input }: { input: unknown }) {
      this.#outside.push(`take ${input}`);
    }
  }
  const createTools = (outside: string[]) => ({ ...toolsOn(outside), shelf: new Shelf(outside) });
  const { outside } = await guardOnce(createTools, (turn) =>
    turn.guard('deploy', async (operation) => {
      await operation.call('shelf', 1);
      await operation.call('break', 2);
    }),
  );
  expect(outside).toEqual(['put 1', 'take 1']);
});

test('[input.1] a guard is not told to do what does not exist', async () => {
  const { outside, outcome } = await guardOnce(toolsOn, (turn) =>
    turn.guard('deploy', (operation) => operation.call('copy', 1), { onFailure: 'rethow' as 'rethrow' }),
  );
  expect(outside).toEqual([]);
  expect(outcome).toMatchObject({ code: 'INVALID_INPUT' });
  expect(String(outcome)).toContain('rethow');
});

test('[loop.17] after a crash an undo that failed is not tried again, and an error is rethrown with its name and code', async () => {
  const world = new World();
  let life: Life | undefined;
  let attempts = 0;
  const thrown: unknown[] = [];
  const outcomes: unknown[] = [];
  const createAgent = (): LoopAgent => ({
    tools: {
      stuck: {
        run: () => undefined,
        undo: () => {
          attempts++;
          throw new Error('cannot undo');
        },
      },
    },
    async handle(_, turn) {
      const fail = async (operation: { call: Turn['call'] }) => {
        await operation.call('stuck', 1);
        throw new StorageError('no disk');
      };
      outcomes.push(await turn.guard('back', fail));
      await turn.guard('throw', fail, { onFailure: 'rethrow' }).catch((error: unknown) => thrown.push(error));
      if (outcomes.length > 1) return;
      life?.die();
      await new Promise(() => undefined);
    },
  });
  life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  await world.start({ createAgent });
  await world.clock.pass(MINUTE);
  expect(attempts).toBe(1);
  expect(outcomes[1]).toEqual(outcomes[0]);
  const [before, after] = thrown;
  expect(before).toBeInstanceOf(StorageError);
  expect(after).toMatchObject({ name: 'StorageError', message: 'no disk', code: 'STORAGE' });
});
