import { z } from 'zod';
import { ClosedError, StorageError } from '../../core/errors.ts';
import { Serial } from '../../core/time/serial.ts';
import type { Chunk, ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import type { Client } from './client.ts';
import type { ReplyOf } from './types.ts';

const READS = [
  'listCheckpoints',
  'listSessions',
  'listChunks',
  'checkIntegrity',
  'stats',
  'readCheckpoint',
  'readRefs',
  'readDue',
  'readEffects',
];
const CHANGES = ['deleteCheckpoints', 'deleteSession'];
const OFFERED_READS: ReadonlySet<string> = new Set(['now', 'countForgotten']);
const OFFERED_CHANGES: ReadonlySet<string> = new Set(['foldTombstones', 'dropEffects']);

/** Chunks that are asked for at once: few enough for any body. */
const ASK_AT_ONCE = 5_000;

/** Where a method is asked for. */
type Route = 'POST /v1/storage/read' | 'POST /v1/storage/change';

/** The storage of a server, as if it were here: every method of the contract is one request, and its errors are those of the server. */
export function createRemoteStorage(client: Client, { kind, limits, offers }: ReplyOf<'GET /v1/server'>): ChunkStorage {
  const changes = new Serial(); // commits of a session are applied in the order of the calls
  let isClosed = false;
  const ask = async (key: Route, body: object, signal?: AbortSignal): Promise<unknown> =>
    checkResult(body, await client.request(key, { body, ...(signal !== undefined && { signal }) }));
  const guarded = <Result>(work: () => Promise<Result>): Promise<Result> =>
    isClosed ? Promise.reject(new ClosedError('The storage is closed.')) : work();
  const read = (name: string, given: readonly unknown[]) =>
    guarded(() => ask('POST /v1/storage/read', bodyOf(name, given)));
  const change = (name: string, given: readonly unknown[], signal?: AbortSignal) =>
    guarded(() => changes.run(() => ask('POST /v1/storage/change', bodyOf(name, given), signal)));
  const methods = {
    ...toMethods([...READS, ...offers.filter((name) => OFFERED_READS.has(name))], read),
    ...toMethods([...CHANGES, ...offers.filter((name) => OFFERED_CHANGES.has(name))], change),
    readChunks: (digests: readonly Digest[]) =>
      readAll(digests, async (rest) => (await read('readChunks', [rest])) as (Chunk | null)[]),
    readReachable: (digests: readonly Digest[]) =>
      readAllReachable(digests, async (rest) => (await read('readReachable', [rest])) as Chunk[]),
    commit: (commit: Commit) => change('commit', [toSent(commit)]),
    collect: ({ signal }: { readonly signal?: AbortSignal } = {}) => change('collect', [], signal),
    close: () => {
      isClosed = true;
      return changes.run(() => undefined);
    },
  };
  return { kind, limits, ...methods } as ChunkStorage;
}

/** What a method returned, if that is what it returns: whatever is at the address may reply with anything. */
function checkResult(body: object, reply: unknown): unknown {
  const [name = ''] = Object.keys(body);
  const { result } = (reply ?? {}) as { readonly result?: unknown };
  const issue = STORAGE_RESULTS[name]?.safeParse(result).error?.issues[0];
  if (issue === undefined) return result;
  throw new StorageError(
    `The server replied to ${name} with something else than its contract says (${['result', ...issue.path].join('.')}: ${issue.message}). Look whether it is a Savestate server of this version.`,
    { details: { method: name } },
  );
}

/** Asks for what is left until all came: a server sends a part of what is large. */
async function readAll(
  digests: readonly Digest[],
  ask: (rest: readonly Digest[]) => Promise<(Chunk | null)[]>,
): Promise<(Chunk | undefined)[]> {
  const found: (Chunk | undefined)[] = [];
  while (found.length < digests.length)
    for (const chunk of await ask(digests.slice(found.length, found.length + ASK_AT_ONCE)))
      found.push(chunk ?? undefined);
  return found;
}

/** The same for all that can be reached: asks for what is referred to and did not come, until that is not there. */
async function readAllReachable(
  digests: readonly Digest[],
  ask: (rest: readonly Digest[]) => Promise<Chunk[]>,
): Promise<Chunk[]> {
  const found = new Map<Digest, Chunk>();
  const absent = new Set<Digest>();
  for (let rest = [...new Set(digests)]; rest.length > 0; ) {
    const asked = rest.slice(0, ASK_AT_ONCE);
    const chunks = await ask(asked);
    for (const chunk of chunks) found.set(chunk.digest, chunk);
    if (!asked.some((digest) => found.has(digest))) for (const digest of asked) absent.add(digest);
    const wanted = new Set([...rest, ...chunks.flatMap(({ refs }) => refs)]);
    rest = [...wanted].filter((digest) => !found.has(digest) && !absent.has(digest));
  }
  return [...found.values()];
}

function toMethods(names: readonly string[], ask: (name: string, given: readonly unknown[]) => Promise<unknown>) {
  return Object.fromEntries(names.map((name) => [name, (...given: unknown[]) => ask(name, given)]));
}

/** The body of a request; arguments that were left out come last. */
function bodyOf(name: string, given: readonly unknown[]) {
  return { [name]: given.filter((value) => value !== undefined) };
}

/** A commit as it travels: the server reads the header from the body, and trusts no other. */
function toSent({ checkpoint, effects, ...rest }: Commit) {
  return {
    ...rest,
    ...(effects !== undefined && {
      effects: effects.map(({ result, ...effect }) => ({ ...effect, ...(result && { result: contentOf(result) }) })),
    }),
    ...(checkpoint !== undefined && {
      checkpoint: { body: checkpoint.body, digest: checkpoint.digest, root: contentOf(checkpoint.root) },
    }),
  };
}

function contentOf({ text, refs }: ChunkContent): ChunkContent {
  return { text, refs };
}

const text = z.string();
const texts = z.array(text);
const count = z.number().nonnegative();
const content = { text, refs: texts };
const row = z.object({ id: text, sessionId: text, digest: text, body: text, isDeleted: z.boolean() });
const chunk = z.object({ ...content, digest: text });
const ref = z.object({ sessionId: text, kind: text, name: text, target: text, check: text });
const effect = z.object({
  sessionId: text,
  branch: text,
  ordinal: count,
  body: text,
  result: z.object(content).optional(),
  digest: text,
});

/** What a server says it is. */
export const aboutReply = z.object({
  version: text,
  kind: text,
  limits: z.object({ maxCheckpoints: count.optional(), maxCheckpointsPerUser: count.optional() }),
  offers: texts,
});

/**
 * What each method of a storage returns: whatever is at the address of a server may reply with anything. Apart from the table of routes,
 * which whoever serves loads, and a client does not.
 */
const STORAGE_RESULTS: { readonly [method: string]: z.ZodType } = {
  readChunks: z.array(chunk.nullable()).min(1),
  readReachable: z.array(chunk),
  readCheckpoint: row.extend({ root: z.object(content).optional() }).optional(),
  listCheckpoints: z.array(row),
  readRefs: z.array(ref),
  readDue: z.array(ref),
  readEffects: z.array(effect),
  listSessions: texts,
  listChunks: texts,
  checkIntegrity: texts,
  stats: z.object({ checkpoints: count, tombstones: count, chunks: count, sessions: count, bytes: count }),
  now: z.number(),
  countForgotten: z.array(z.object({ sessionId: text, checkpoints: count, forgotten: count })),
  commit: z.object({ status: z.enum(['stored', 'duplicate']), id: text.optional() }),
  deleteCheckpoints: texts,
  foldTombstones: texts,
  deleteSession: z.boolean(),
  collect: z.object({ chunks: count, bytes: count }),
};
