import assert from 'node:assert/strict';
import type { ErrorCode, SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { CheckpointQuery, ChunkStorage, NewCheckpoint } from '../../storage/contract.ts';
import { Builders, type CheckpointParts, commitOf } from './builders.ts';

/** Closes a storage and opens the same data again. */
type Reopen = (storage: ChunkStorage) => Promise<ChunkStorage>;

/** What a test of the contract gets: a fresh empty storage and a maker of things to put into it. */
type ContractContext = {
  readonly storage: ChunkStorage;
  readonly make: Builders;
  /** Stores checkpoints with these parts at once and gives them back. */
  readonly store: <Parts extends readonly CheckpointParts[]>(
    parts: readonly [...Parts],
  ) => Promise<{ [At in keyof Parts]: NewCheckpoint }>;
  /** Asserts that a query finds exactly these, in any order. */
  readonly finds: (filters: Partial<CheckpointQuery>, wanted: readonly NewCheckpoint[]) => Promise<void>;
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
    async store<Parts extends readonly CheckpointParts[]>(parts: readonly [...Parts]) {
      const made = parts.map((part) => make.checkpoint(part));
      await Promise.all(made.map((checkpoint) => storage.commit(commitOf(checkpoint))));
      return made as { [At in keyof Parts]: NewCheckpoint };
    },
    async finds(filters, wanted) {
      const rows = await storage.listCheckpoints(everything(filters));
      const ids = wanted.map(({ header }) => header.id);
      assertSame(rows.map((row) => row.id).sort(), ids.sort(), JSON.stringify(filters));
    },
  };
}

/** Defines a test that every storage can run. */
export function rule(title: string, run: ContractTest['run']): ContractTest {
  return { title, needsReopen: false, run };
}

/** Defines a test that needs the storage to be opened a second time. */
export function reopenRule(title: string, run: ContractTest['run']): ContractTest {
  return { title, needsReopen: true, run };
}

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

/** Asserts that a storage holds nothing at all of a session. */
export async function assertNoTrace(storage: ChunkStorage, sessionId: SessionId): Promise<void> {
  assertSame(await storage.listCheckpoints(everything({ sessionId, include: 'all' })), []);
  assertSame(await storage.readRefs({ sessionId }), []);
  assertSame(await storage.readEffects({ sessionId }), []);
  const sessions = await storage.listSessions({ limit: ALL });
  assert.ok(!sessions.includes(sessionId), `session ${sessionId} is still listed`);
}
