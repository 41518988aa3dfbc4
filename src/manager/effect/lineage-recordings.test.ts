import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { SessionOptions } from '../write/session-options.ts';

type Talk = { tone: string; log: string[] };

const EMPTY: Talk = { tone: 'dry', log: [] };
const ALL = ['a', 'b', 'c', 'd'];
const warm = (talk: Talk): void => {
  talk.tone = 'warm';
};

describeOn(STORAGES)('a replay on %s', (_, create) => {
  /** Asks for the letters after those in the state, one step each, and says which were asked live. */
  async function open() {
    const manager = new CheckpointManager({ storage: create().storage });
    const play = async (
      branch: string,
      options: Omit<SessionOptions, 'initial' | 'schema'> = {},
      until = ALL.length,
    ) => {
      const session = await manager.session('s', { branch, initial: EMPTY, ...options });
      const live: string[] = [];
      for (const letter of ALL.slice(session.state.log.length, until)) {
        const ask = () => {
          live.push(letter);
          return `${letter} of ${branch}`;
        };
        const said = await session.step('ask', ask, { input: letter });
        await session.step('wait', () => live.push('wait')); // in order, for it has no input
        await session.update((talk) => void talk.log.push(said));
      }
      await session.close();
      return live.filter((letter) => letter !== 'wait').join('');
    };
    const session = await manager.session('s', { initial: EMPTY });
    const start = await session.save(session.state);
    await session.close();
    expect(await play('main')).toBe('abcd');
    const second = (await manager.list({ sessionId: 's' }, { order: 'oldest' })).checkpoints[2]?.id ?? '';
    return { manager, start, second, play };
  }

  type Opened = Awaited<ReturnType<typeof open>>;
  type Way = (opened: Opened, at: string) => Promise<string>;
  const WAYS: readonly (readonly [name: string, way: Way])[] = [
    ['a fork', async ({ manager }, at) => (await manager.fork(at)).branch],
    ['an edited fork', async ({ manager }, at) => (await manager.fork(at, { edit: warm })).branch],
    [
      'an edited fork of an edited fork',
      async ({ manager }, at) => {
        const { headId } = await manager.fork(at, { edit: warm });
        return (await manager.fork(headId, { edit: (talk: Talk) => void talk.log.splice(0, 1, 'A') })).branch;
      },
    ],
    [
      'a fork that was updated twice',
      async ({ manager }, at) => {
        const fork = await (await manager.session('s', { initial: EMPTY })).fork({ at });
        await fork.update(warm);
        await fork.update((talk) => void Object.assign(talk, { tone: 'hot' }));
        return fork.branch;
      },
    ],
    ['a rewind', async ({ manager }, at) => (await manager.rewind(at)).branch],
    [
      'a rewind that was updated',
      async ({ manager }, at) => {
        const session = await manager.session('s', { initial: EMPTY });
        await session.rewind(at);
        await session.update(warm);
        return session.branch;
      },
    ],
  ];

  test.each(WAYS)('[effect.5] of %s makes no call while inputs match, recorded or frozen', async (_name, way) => {
    const opened = await open();
    const { manager, start, second, play } = opened;
    for (const mode of ['recorded', 'frozen'] as const)
      for (const at of [start, second]) {
        await manager.switchBranch('s', 'main');
        expect(await play(await way(opened, at), { mode })).toBe('');
      }
    await manager.close();
  });

  test.each(WAYS)('[effect.5] of %s goes on with the recordings that are left', async (_name, way) => {
    const opened = await open();
    const branch = await way(opened, opened.start);
    for (const until of [2, 3, 4]) expect(await opened.play(branch, { mode: 'recorded' }, until)).toBe('');
    await opened.manager.close();
  });

  test('[effect.5] a fork of a fork that was replayed in part finds the rest where that was forked from', async () => {
    const { manager, start, play } = await open();
    const { branch } = await manager.fork(start, { edit: warm });
    await play(branch, { mode: 'recorded' }, 2);
    const next = await manager.fork({ sessionId: 's', at: `${branch}~1` }, { edit: warm });
    expect(await play(next.branch, { mode: 'frozen' })).toBe('');
    await manager.close();
  });

  test('[effect.5] what went its own way is not mixed with recordings of where it was forked from', async () => {
    const { manager, start, play } = await open();
    const { branch } = await manager.fork(start, { edit: warm });
    await play(branch, {}, 2);
    expect(await play(branch, { mode: 'recorded' })).toBe('cd');
    const { branch: next } = await manager.fork({ sessionId: 's', at: `${branch}~3` }, { edit: warm });
    expect(await play(next, { mode: 'recorded' })).toBe('');
    const { state } = await manager.session('s', { branch: next, initial: EMPTY });
    expect(state.log[1]).toBe(`b of ${branch}`);
    await manager.close();
  });

  test('[effect.5] a named branch is replayed from where this one left it on', async () => {
    const { manager, second } = await open();
    const { branch } = await manager.fork(second, { edit: warm });
    const session = await manager.session('s', { branch, mode: 'frozen', replayBranch: 'main' });
    expect(await session.step('wait', () => 0)).toBe(6); // of the third letter: the calls of main, counted
    await manager.close();
  });

  test('[effect.5] the fork of a checkpoint that was deleted since is replayed, too', async () => {
    const { manager, second, play } = await open();
    const { branch } = await manager.fork(second, { edit: warm });
    expect(await manager.delete(second)).toBe(true);
    expect(await play(branch, { mode: 'recorded' })).toBe('');
    await manager.close();
  });
});
