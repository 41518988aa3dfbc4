import type { ChunkStorage, Commit, RefChange, RefKind } from '../../../src/storage/contract.ts';
import type { FileSystem } from '../../../src/storage/file/file-system.ts';
import { withLateSync, withoutFileSync, withoutFolderSync } from '../../support/planted-bugs.ts';
import { type PlantedBug, STORES, turns } from './world.ts';

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

const LOOKING_TURNS = 50;

/** Looks once for what is needed, and removes the rest later, whatever was saved meanwhile. */
async function collectWithoutGrace(storage: ChunkStorage, fileSystem: FileSystem) {
  const rows = await storage.listCheckpoints({ limit: 1_000 });
  const roots = await Promise.all(rows.map(({ id }) => storage.readCheckpoint(id)));
  const needed = await storage.readReachable(roots.flatMap((row) => row?.root?.refs ?? []));
  await turns(LOOKING_TURNS);
  const kept = new Set(needed.map(({ digest }) => digest));
  const garbage = (await storage.listChunks({ limit: 1_000 })).filter((digest) => !kept.has(digest));
  for (const digest of garbage) await fileSystem.removeTree(`${STORES.main}/chunks/${digest.slice(0, 2)}/${digest}`);
  return { chunks: garbage.length, bytes: 0 };
}

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
  ['keys of repeated saves are forgotten', { ...withCommits(forgetKey), kind: 'memory' }],
  [
    'gc looks only once',
    {
      storage: (storage, fileSystem) => override(storage, { collect: () => collectWithoutGrace(storage, fileSystem) }),
    },
  ],
  [
    'gc removes nothing',
    { storage: (storage) => override(storage, { collect: async () => ({ chunks: 0, bytes: 0 }) }) },
  ],
  [
    'retention deletes what is protected',
    {
      storage: (storage) =>
        override(storage, { deleteCheckpoints: (deletions) => storage.deleteCheckpoints(deletions, { force: true }) }),
    },
  ],
  ['an import does not claim its session', withoutRefs('import')],
  ['members of a group are not pinned', withoutRefs('pin')],
];

function isFence({ kind, expect, target }: RefChange): boolean {
  return kind === 'lease' && expect === target;
}

function forgetKey(commit: Commit): Commit {
  if (commit.checkpoint === undefined) return commit;
  const { idempotencyKey: _, ...header } = commit.checkpoint.header;
  return { ...commit, checkpoint: { ...commit.checkpoint, header } };
}
