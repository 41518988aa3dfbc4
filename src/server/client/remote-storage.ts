import { ClosedError } from '../../core/errors.ts';
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
  'readReachable',
  'readCheckpoint',
  'readRefs',
  'readDue',
  'readEffects',
];
const CHANGES = ['deleteCheckpoints', 'deleteSession'];

/** Where a method is asked for. */
type Route = 'POST /v1/storage/read' | 'POST /v1/storage/change';

/** The storage of a server, as if it were here: every method of the contract is one request, and its errors are those of the server. */
export function createRemoteStorage(client: Client, { kind, limits, offers }: ReplyOf<'GET /v1/server'>): ChunkStorage {
  const changes = new Serial(); // commits of a session are applied in the order of the calls
  let isClosed = false;
  const ask = async (key: Route, body: object, signal?: AbortSignal): Promise<unknown> =>
    (await client.request(key, { body, ...(signal !== undefined && { signal }) })).result;
  const guarded = <Result>(work: () => Promise<Result>): Promise<Result> =>
    isClosed ? Promise.reject(new ClosedError('The storage is closed.')) : work();
  const read = (name: string, given: readonly unknown[]) =>
    guarded(() => ask('POST /v1/storage/read', bodyOf(name, given)));
  const change = (name: string, given: readonly unknown[], signal?: AbortSignal) =>
    guarded(() => changes.run(() => ask('POST /v1/storage/change', bodyOf(name, given), signal)));
  const methods = {
    ...toMethods([...READS, ...offers.filter((name) => name === 'now')], read),
    ...toMethods([...CHANGES, ...offers.filter((name) => name === 'foldTombstones')], change),
    readChunks: async (digests: readonly Digest[]) =>
      ((await read('readChunks', [digests])) as (Chunk | null)[]).map((chunk) => chunk ?? undefined),
    commit: (commit: Commit) => change('commit', [toSent(commit)]),
    collect: ({ signal }: { readonly signal?: AbortSignal } = {}) => change('collect', [], signal),
    close: () => {
      isClosed = true;
      return changes.run(() => undefined);
    },
  };
  return { kind, limits, ...methods } as ChunkStorage;
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
