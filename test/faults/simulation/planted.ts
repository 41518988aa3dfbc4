import type { ChunkStorage, Commit, RefChange, RefKind } from '../../../src/storage/contract.ts';
import { withLateSync, withoutFileSync, withoutFolderSync } from '../../support/planted-bugs.ts';
import type { PlantedBug } from './world.ts';

/** A storage that makes something else of each commit. */
function withCommits(change: (commit: Commit) => Commit): PlantedBug {
  return {
    storage: (storage) => override(storage, { commit: (commit) => storage.commit(change(commit)) }),
  };
}

function override(storage: ChunkStorage, changes: Partial<ChunkStorage>): ChunkStorage {
  return new Proxy(storage, {
    get: (inner, key) => Reflect.get(changes, key) ?? Reflect.get(inner, key),
  });
}

const withoutRefs = (kind: RefKind) =>
  withCommits((commit) => ({ ...commit, refs: (commit.refs ?? []).filter((ref) => ref.kind !== kind) }));

const withoutExpectation = (kind: RefKind) =>
  withCommits((commit) => ({
    ...commit,
    refs: (commit.refs ?? []).map(({ expect, ...ref }) =>
      ref.kind === kind || expect === undefined ? ref : { ...ref, expect },
    ),
  }));

/** Mistakes that one could make in this program; the simulation must notice each. */
export const PLANTED_BUGS: readonly (readonly [name: string, bug: PlantedBug])[] = [
  ['files are not synced', { fileSystem: withoutFileSync }],
  ['folders are not synced', { fileSystem: withoutFolderSync }],
  ['syncs come late', { fileSystem: withLateSync }],
  [
    'a save is acknowledged before it is stored',
    {
      storage: (storage) =>
        override(storage, {
          commit: async (commit) => {
            if (commit.checkpoint === undefined) return storage.commit(commit);
            void storage.commit(commit).catch(() => undefined);
            return { status: 'stored' };
          },
        }),
    },
  ],
  [
    'the fence of a lease is dropped',
    withCommits((commit) => ({ ...commit, refs: (commit.refs ?? []).filter((ref) => !isFence(ref)) })),
  ],
  ['a head is moved whatever it is at', withoutExpectation('branch')],
  ['a head is not moved', withoutRefs('branch')],
];

function isFence({ kind, expect, target }: RefChange): boolean {
  return kind === 'lease' && expect === target;
}
