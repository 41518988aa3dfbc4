import { describe, expect, test } from 'vitest';
import { World } from '../../../test/loop/world.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { AgentLoop, type AgentLoopOptions, type LoopAgent } from './index.ts';

const createAgent = (): LoopAgent => ({ handle: () => undefined });
const REFUSAL = { code: 'INVALID_INPUT' };
const REFUSAL_WITH_HELP = { ...REFUSAL, message: expect.stringMatching(/; (found|known:|did you mean|use) /) };

/** A storage that counts what is written to it. */
function countCommits() {
  let commits = 0;
  const storage: ChunkStorage = new InMemoryCheckpointStorage();
  const counting = new Proxy(storage, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === 'commit') commits++;
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { manager: new CheckpointManager({ storage: counting }), commits: () => commits };
}

const BAD_OPTIONS: readonly [string, object][] = [
  ['a setting that stands beside the others', { routineEveryMs: 1000 }],
  ['an unknown option', { heartbeat: 5 }],
  ['an unknown way to refresh', { refresh: 'exti' }],
  ['prune in words', { prune: 'no' }],
  ['settings that are a number', { settings: 5 }],
  ['settings that are null', { settings: null }],
  ['an unknown setting', { settings: { every: 1 } }],
  ['a setting of 0', { settings: { maxFailures: 0 } }],
  ['a setting that no timer takes', { settings: { refreshEveryMs: 2 ** 31 } }],
  ['drift true', { drift: true }],
  ['drift null', { drift: null }],
  ['a watch that watches nothing', { drift: { watch: {} } }],
  ['a watch that is null', { drift: { watch: null } }],
  ['a watch and options of the detector', { drift: { watch: {}, alarmNats: 3 } }],
  ['a lease that is a number', { lease: 5 }],
  ['a lease with an unknown key', { lease: { ttl: 5 } }],
  ['a lease without time', { lease: { ttlMs: 0 } }],
  ['a lease that is renewed by nobody', { lease: { renew: 'never' } }],
  ['a lease that is waited for in words', { lease: { waitMs: 'long' } }],
  ['a signal that is none', { lease: { signal: 'SIGTERM' } }],
  ['a heartbeat of 0', { heartbeatMs: 0 }],
  ['no createAgent', { createAgent: undefined }],
  ['a createAgent that is an agent', { createAgent: createAgent() }],
  ['a createAgent that is async', { createAgent: async () => createAgent() }],
  ['initial that is a list', { initial: [] }],
  ['initial with an unknown section', { initial: { mailbox: {} } }],
  ['initial with an unknown key of a section', { initial: { context: { goal: 'g' } } }],
  ['an agent that is a class', { createAgent: class Clerk {} }],
];

/** What is refused in the words of the part that knows it. */
const OTHER_BAD_OPTIONS: readonly [string, object][] = [
  ['an unknown option of the detector', { drift: { bogus: 1 } }],
  ['no manager', { manager: undefined }],
  ['a manager that is none', { manager: {} }],
  ['no agentId', { agentId: undefined }],
  ['an agentId that is a number', { agentId: 5 }],
  ['an agentType that is empty', { agentType: '' }],
  ['a userId that is an object', { userId: {} }],
  ['a sessionId with a line break', { sessionId: 'a\nb' }],
  ['a lease of an owner without name', { lease: { owner: '' } }],
  ['an initial task with a progress of 50', { initial: { task: { id: 't', status: 'active', progress: 50 } } }],
  [
    'initial goals that are no texts',
    { initial: { context: { goals: [42], constraints: [], decisions: [], notes: [] } } },
  ],
  ['an initial memory that cannot be saved', { initial: { memory: { shortTerm: {}, session: { now: () => 1 } } } }],
];

class Misspelt {
  readonly works = 3; // data is its own
  handle(): number {
    return this.works;
  }
  wrok(): number {
    return this.works;
  }
}

describe('what is said to open', () => {
  test.each(BAD_OPTIONS)(
    '[input.1] is refused, with what is allowed, and before anything is taken: %s',
    async (_, bad) => {
      const { manager, commits } = countCommits();
      const options = { manager, agentId: 'a', createAgent, lease: { owner: 'me' }, ...bad } as AgentLoopOptions;
      await expect(AgentLoop.open(options)).rejects.toMatchObject(REFUSAL_WITH_HELP);
      expect(commits()).toBe(0);
    },
  );

  test.each(OTHER_BAD_OPTIONS)('[input.1] is refused before anything is taken: %s', async (_, bad) => {
    const { manager, commits } = countCommits();
    const options = { manager, agentId: 'a', createAgent, lease: { owner: 'me' }, ...bad } as AgentLoopOptions;
    await expect(AgentLoop.open(options)).rejects.toMatchObject(REFUSAL);
    expect(commits()).toBe(0);
  });

  test('[input.1] is refused if it is nothing at all', async () => {
    for (const bad of [undefined, null, 5, []])
      await expect(AgentLoop.open(bad as unknown as AgentLoopOptions)).rejects.toMatchObject(REFUSAL_WITH_HELP);
  });

  test('[input.1] may be undefined where it may be left out', async () => {
    const { manager } = countCommits();
    const left = { sessionId: undefined, agentType: undefined, userId: undefined, initial: { task: undefined } };
    const rest = { settings: { maxFailures: undefined }, refresh: undefined, drift: undefined, lease: undefined };
    const more = { heartbeatMs: undefined, prune: undefined };
    const given = { manager, agentId: 'a', createAgent, ...left, ...rest, ...more } as unknown as AgentLoopOptions;
    const loop = await AgentLoop.open(given);
    expect(loop.state).toMatchObject({ task: null });
    await loop.stop();
  });

  test('[restore.3] a session of another agent, or of one of another type, is refused unless that is wanted', async () => {
    const { manager } = countCommits();
    const open = (options: Partial<AgentLoopOptions> & { readonly agentId: string }) =>
      AgentLoop.open({ manager, createAgent, sessionId: 's', ...options });
    const first = await open({ agentId: 'a', agentType: 'Clerk' });
    await manager.save(first);
    await first.stop();
    const refused = 'Session "s" is of agent "a" (Clerk), and was to be opened for';
    await expect(open({ agentId: 'b' })).rejects.toThrow(`${refused} "b".`);
    await expect(open({ agentId: 'a', agentType: 'Boss' })).rejects.toThrow(`${refused} "a" (Boss).`);
    for (const options of [{}, { agentType: 'Clerk' }]) await (await open({ agentId: 'a', ...options })).stop();
    await (await open({ agentId: 'b', onDifference: 'accept' })).stop();
  });

  test('[input.1] may begin with goals alone, or with one half of the memory', async () => {
    const { manager } = countCommits();
    const initial = { context: { goals: ['write it'], notes: undefined }, memory: { session: { city: 'Oslo' } } };
    const loop = await AgentLoop.open({ manager, agentId: 'a', createAgent, initial });
    expect(loop.state).toMatchObject({
      context: { goals: ['write it'], constraints: [], decisions: [], notes: [] },
      memory: { shortTerm: {}, session: { city: 'Oslo' } },
    });
    await loop.stop();
  });

  test.each<[string, () => unknown]>([
    ['a promise', () => Promise.resolve(createAgent())],
    ['nothing', () => undefined],
    ['an agent without handle', () => ({ work: () => undefined })],
    ['a tool without run', () => ({ ...createAgent(), tools: { look: { undo: () => undefined } } })],
    ['tools in a map', () => ({ ...createAgent(), tools: new Map() })],
    ['a tool that is a function', () => ({ ...createAgent(), tools: { look: () => 1 } })],
    ['a misspelt work', () => ({ ...createAgent(), wrok: () => undefined })],
    ['a class with a misspelt work', () => new Misspelt()],
    ['a misspelt undo', () => ({ ...createAgent(), tools: { look: { run: () => 1, undoo: () => 2 } } })],
    ['an unknown section', () => ({ ...createAgent(), sections: { memories: {} } })],
    ['a hook that is no function', () => ({ ...createAgent(), sections: { memory: { collect: 5 } } })],
  ])('[input.1] a createAgent that answers %s ends the run, and says so', async (_, create) => {
    const world = new World();
    const life = await world.start({ createAgent: create as () => LoopAgent });
    await life.loop.deliver({ id: 'm1', body: 1 });
    expect(await life.ended).toMatchObject(REFUSAL_WITH_HELP);
    expect(life.loop.state.mailbox).toMatchObject({ pending: [{ id: 'm1' }], setAside: [] });
    expect(life.events.at(-1)).toMatchObject({
      kind: 'stopped',
      reason: 'failed',
      error: { name: 'InvalidInputError' },
    });
  });
});

describe('a lease', () => {
  test('[loop.8] is not left behind by an open that fails', async () => {
    const { manager } = countCommits();
    let isBroken = true;
    const list = manager.list.bind(manager);
    manager.list = async (...args) => {
      if (isBroken) throw new Error('the disk is gone');
      return list(...args);
    };
    await expect(AgentLoop.open({ manager, agentId: 'a', createAgent, lease: { owner: 'one' } })).rejects.toThrow(
      'disk',
    );
    isBroken = false;
    const loop = await AgentLoop.open({ manager, agentId: 'a', createAgent, lease: { owner: 'two' } });
    expect(loop.status).toBe('running');
    await loop.stop();
  });

  test('[loop.8] of another stays what it is', async () => {
    const { manager } = countCommits();
    const first = await AgentLoop.open({ manager, agentId: 'a', createAgent, lease: { owner: 'one' } });
    const again = { manager, agentId: 'a', createAgent, lease: { owner: 'two' } };
    for (let time = 1; time <= 2; time++)
      await expect(AgentLoop.open(again)).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await first.deliver({ id: 'm1', body: 1 })).toBe(true);
    await first.stop();
    await (await AgentLoop.open(again)).stop();
  });
});

describe('what is said to a loop', () => {
  test('[input.1] deliver refuses what is no message, or has what would be lost', async () => {
    const { loop } = await new World().start({ createAgent });
    const bad = [null, undefined, 5, 'm1', [], {}, { id: 'm', body: 1, to: 'x' }, { id: 'm', body: 1, from: 5 }];
    for (const message of bad) await expect(loop.deliver(message as never)).rejects.toMatchObject(REFUSAL);
    expect(loop.state.mailbox.pending).toEqual([]);
  });

  test('[input.1] resume refuses what is no list of ids', async () => {
    const { loop } = await new World().start({ createAgent });
    const bad = [null, 5, { retry: 'm1' }, { retry: 5 }, { retry: [5] }, { again: ['m1'] }];
    for (const options of bad) await expect(loop.resume(options as never)).rejects.toMatchObject(REFUSAL_WITH_HELP);
  });

  test('[input.1] stop refuses what it cannot do, and the loop goes on', async () => {
    const { loop } = await new World().start({ createAgent });
    const bad = [
      null,
      5,
      { graceMs: Number.NaN },
      { graceMs: -1 },
      { graceMs: 2 ** 31 },
      { checkpoint: 1 },
      { now: true },
    ];
    for (const options of bad) {
      await expect(loop.stop(options as never)).rejects.toMatchObject(REFUSAL_WITH_HELP);
    }
    expect(loop.status).toBe('running');
    expect(() => loop.on('turn' as never)).toThrow(expect.objectContaining(REFUSAL_WITH_HELP));
    await loop.stop({ graceMs: 0 });
  });

  test('[loop.8] who runs a loop that was stopped is told to open the agent again, whether it ran or not', async () => {
    for (const run of [true, false]) {
      const { loop } = await new World().start({ createAgent }, { run });
      await loop.stop();
      const message = expect.stringMatching(/has ended, so it does not run.*AgentLoop\.open/);
      await expect(loop.run()).rejects.toMatchObject({ code: 'CLOSED', message });
    }
  });

  test('[loop.9] what a turn fails with after the loop was stopped is told, but for the abort itself', async () => {
    const world = new World();
    let fail: (error: Error) => void = () => undefined;
    const failing = (): LoopAgent => ({
      handle: async ({ id }, turn) => {
        if (id === 'm1')
          await new Promise<never>((_, reject) =>
            turn.signal.addEventListener('abort', () => reject(turn.signal.reason)),
          );
        await new Promise<never>((_, reject) => {
          fail = reject;
        });
      },
    });
    for (const id of ['m1', 'm2']) {
      const { loop, events, ended } = await world.start({ createAgent: failing, agentId: id });
      await loop.deliver({ id, body: null });
      await world.clock.settle();
      const stopping = loop.stop({ graceMs: 1 });
      await world.clock.pass(1);
      await stopping;
      expect(await ended).toBe('stopped');
      fail(new Error('too late'));
      await world.clock.settle();
      const error = { name: 'Error', message: 'too late' };
      const told = id === 'm1' ? { kind: 'stopped' } : { kind: 'turn', status: 'failed', error };
      expect(events.at(-1)).toMatchObject(told);
    }
  });
});
