import assert from 'node:assert/strict';
import type { ErrorCode, SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { CheckpointQuery, ChunkStorage, Commit, NewCheckpoint } from '../../storage/contract.ts';
import { Builders, type CheckpointParts, type CommitParts, commitOf, deletionOf, rowWithRootOf } from './builders.ts';

/** Closes a storage and opens the same data again. */
type Reopen = (storage: ChunkStorage) => Promise<ChunkStorage>;

/** What a test of the contract gets: a fresh empty storage, a maker of things to put into it, and what is asserted again and again. */
export type ContractContext = {
  readonly storage: ChunkStorage;
  readonly make: Builders;
  /** Stores one checkpoint with these parts and gives it back. */
  readonly save: (parts?: CheckpointParts, rest?: CommitParts) => Promise<NewCheckpoint>;
  /** Stores several at once. */
  readonly store: <Parts extends readonly CheckpointParts[]>(
    parts: readonly [...Parts],
  ) => Promise<{ [At in keyof Parts]: NewCheckpoint }>;
  /** Deletes checkpoints; gives the ids that the storage names. */
  readonly forget: (...checkpoints: readonly NewCheckpoint[]) => Promise<readonly string[]>;
  /** Asserts that a commit is stored. */
  readonly accepts: (commit: Commit) => Promise<void>;
  /** Asserts that a commit is a CONFLICT, with these details if they are given. */
  readonly refuses: (commit: Commit, details?: object) => Promise<void>;
  /** Asserts that each can be read as it was made. */
  readonly holds: (...checkpoints: readonly NewCheckpoint[]) => Promise<void>;
  /** Asserts that a query finds exactly these, in any order. */
  readonly finds: (filters: Partial<CheckpointQuery>, wanted: readonly NewCheckpoint[]) => Promise<void>;
  /** Collects, and asserts that these chunks are left and no others. */
  readonly leaves: (...chunks: readonly Chunk[]) => Promise<void>;
  /** Only for tests that say so. */
  readonly reopen: Reopen;
};

/** One test of the contract. The title starts with the rule it shows: `[storage.1] ...`. */
export type ContractTest = {
  readonly title: string;
  readonly needsReopen: boolean;
  readonly run: (context: ContractContext) => Promise<void>;
};

/** The context of a test on this storage. */
export function createContext(storage: ChunkStorage, reopen: Reopen): ContractContext {
  const make = new Builders();
  return {
    storage,
    make,
    reopen,
    async save(parts, rest) {
      const made = make.checkpoint(parts);
      await storage.commit(commitOf(made, rest));
      return made;
    },
    async store<Parts extends readonly CheckpointParts[]>(parts: readonly [...Parts]) {
      const made = parts.map((part) => make.checkpoint(part));
      await Promise.all(made.map((checkpoint) => storage.commit(commitOf(checkpoint))));
      return made as { [At in keyof Parts]: NewCheckpoint };
    },
    forget: (...checkpoints) => storage.deleteCheckpoints(checkpoints.map(deletionOf)),
    accepts: async (commit) => assertSame(await storage.commit(commit), { status: 'stored' }),
    async refuses(commit, details) {
      const error = await assertRejects(storage.commit(commit), 'CONFLICT');
      if (details !== undefined) assertSame(error.details, details);
    },
    async holds(...checkpoints) {
      for (const made of checkpoints) assertSame(await storage.readCheckpoint(made.header.id), rowWithRootOf(made));
    },
    async finds(filters, wanted) {
      const rows = await storage.listCheckpoints(everything(filters));
      const ids = wanted.map(({ header }) => header.id);
      assertSame(rows.map((row) => row.id).sort(), ids.sort(), JSON.stringify(filters));
    },
    async leaves(...chunks) {
      await storage.collect();
      assertSame(await listDigests(storage), chunks.map(({ digest }) => digest).sort());
    },
  };
}

/** Defines a test that every storage can run. */
export const rule = (title: string, run: ContractTest['run']): ContractTest => ({ title, needsReopen: false, run });

/** Defines a test that needs the storage to be opened a second time. */
export const reopenRule = (title: string, run: ContractTest['run']): ContractTest => ({
  ...rule(title, run),
  needsReopen: true,
});

/** More than any test stores: lists without pages. */
export const ALL = 1_000_000;

/** The query for everything of some kind, oldest first. */
export const everything = (filters: Partial<CheckpointQuery> = {}): CheckpointQuery => ({
  order: 'oldest',
  limit: ALL,
  ...filters,
});

/** Asserts equality of plain data; drivers may give rows without a prototype, which is no difference that matters. */
export function assertSame(actual: unknown, expected: unknown, message?: string): void {
  assert.deepEqual(toPlain(actual), toPlain(expected), message);
}

function toPlain(value: unknown): unknown {
  return value === undefined ? undefined : (JSON.parse(JSON.stringify(value)) as unknown);
}

/** Asserts that a call rejects with a coded error, and gives the error back. */
export async function assertRejects(call: Promise<unknown>, code: ErrorCode): Promise<SavestateError> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(outcome instanceof Error && 'code' in outcome, `expected an error with code ${code}, found ${outcome}`);
  assert.equal(outcome.code, code, outcome.message);
  return outcome as SavestateError;
}

/** Everything that can be read from a storage, in one value to compare. */
export async function readAll(storage: ChunkStorage): Promise<Record<string, unknown>> {
  const rows = await storage.listCheckpoints(everything({ include: 'all' }));
  const checkpoints = await Promise.all(rows.map((row) => storage.readCheckpoint(row.id)));
  const sessions = await storage.listSessions({ limit: ALL });
  const effects = await Promise.all(sessions.map((sessionId) => storage.readEffects({ sessionId })));
  const chunks = await storage.readChunks(await listDigests(storage));
  return structuredClone({ rows, checkpoints, sessions, effects, chunks, refs: await storage.readRefs() });
}

/** Digests of all stored chunks, ascending. */
export const listDigests = async (storage: ChunkStorage): Promise<Digest[]> =>
  (await storage.listChunks({ limit: ALL })).sort();

/** All items of a list that comes page by page: the last of a page is where the next begins. */
export async function readPages<Item>(read: (cursor: { after?: Item }) => Promise<readonly Item[]>): Promise<Item[]> {
  const found: Item[] = [];
  for (let page = await read({}); page.length > 0; page = await read({ after: found.at(-1) as Item }))
    found.push(...page);
  return found;
}

/** Asserts that a storage holds nothing at all of a session. */
export async function assertNoTrace(storage: ChunkStorage, sessionId: SessionId): Promise<void> {
  assertSame(await storage.listCheckpoints(everything({ sessionId, include: 'all' })), []);
  assertSame(await storage.readRefs({ sessionId }), []);
  assertSame(await storage.readEffects({ sessionId }), []);
  const sessions = await storage.listSessions({ limit: ALL });
  assert.ok(!sessions.includes(sessionId), `session ${sessionId} is still listed`);
}
