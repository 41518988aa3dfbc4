import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatPath } from '../core/path.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { blame } from './blame.ts';
import { findAt, parseStatePath } from './state-path.ts';

type State = { plan: string[]; messages: { text: number }[]; turn: number };

class Counting extends InMemoryCheckpointStorage {
  wholeStates = 0;

  override readReachable(...args: Parameters<InMemoryCheckpointStorage['readReachable']>) {
    this.wholeStates++;
    return super.readReachable(...args);
  }
}

async function record(states: readonly State[]) {
  const storage = new Counting();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  for (const state of states) await session.save(state);
  const from = await manager.open({ sessionId: 's', at: '@' });
  storage.wholeStates = 0;
  const owners = async (path: string, isWhole = false) => {
    const found = await blame(manager, { from, path: parseStatePath(path) }, { isWhole, watch: (items) => items });
    return found.map((each) => [each.path, each.checkpoint.sequence]);
  };
  return { storage, owners };
}

const messages = (count: number) => Array.from({ length: count }, (_, text) => ({ text }));

test('[cli.9] whole states are read only where the value may have changed', async () => {
  const states = Array.from({ length: 40 }, (_, turn) => ({
    plan: turn < 5 ? ['a'] : [],
    messages: messages(turn),
    turn,
  }));
  const { storage, owners } = await record(states);
  expect(await owners('$.plan')).toEqual([['$.plan', 6]]); // empty, so it stands for itself
  expect(await owners('$.messages')).toEqual(messages(39).map(({ text }) => [`$.messages[${text}]`, text + 2]));
  expect(storage.wholeStates).toBeLessThan(8);
});

test('[cli.9] each value belongs to the checkpoint after the last one where it was different, however a list was changed', async () => {
  const edit = fc.record({ at: fc.nat(6), remove: fc.nat(2), add: fc.nat(2), isSwapped: fc.boolean() });
  const check = async (edits: readonly { at: number; remove: number; add: number; isSwapped: boolean }[]) => {
    let next = 0;
    let list = [0, 1, 2].map(() => ({ text: next++ }));
    const states: State[] = [{ plan: [], messages: list, turn: 0 }];
    for (const [turn, { at, remove, add, isSwapped }] of edits.entries()) {
      const fresh = Array.from({ length: add }, () => ({ text: next++ }));
      list = list.toSpliced(Math.min(at, list.length), remove, ...fresh);
      if (isSwapped && list.length > 1) list = [...list.slice(1), ...list.slice(0, 1)];
      states.push({ plan: [], messages: list, turn: turn + 1 });
    }
    const head = states.at(-1);
    const { owners } = await record(states);
    const ownerOf = (path: (string | number)[]) =>
      states.findLastIndex((state) => !isDeepStrictEqual(findAt(state, path), findAt(head, path))) + 2;
    const paths = [...list.keys()].map((at) => ['messages', at]);
    expect(await owners('$.messages')).toEqual(paths.map((path) => [formatPath(path), ownerOf(path)]));
    expect(await owners('$.messages[-1]', true)).toEqual([['$.messages[-1]', ownerOf(['messages', -1])]]);
  };
  const edits = fc.array(edit, { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(edits, (given) => check([...given, { at: 0, remove: 0, add: 1, isSwapped: false }])),
    { numRuns: 60 },
  );
});
