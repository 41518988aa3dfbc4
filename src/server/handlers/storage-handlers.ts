import { InvalidInputError, toInputError, UnsupportedError } from '../../core/errors.ts';
import { Checkpoint, parseCheckpointBody } from '../../core/record/checkpoint.ts';
import { parseName } from '../../core/record/id.ts';
import { type Chunk, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import { parseRoot } from '../../manager/engine/records.ts';
import type { ChunkStorage, Commit, NewCheckpoint } from '../../storage/contract.ts';
import { Reachable } from '../../storage/reachable.ts';
import type { Handlers } from './call.ts';

/** Answers those who work on the storage itself. */
export const STORAGE_HANDLERS = {
  'POST /v1/storage/read': async ({ engine: { storage }, body }) => {
    if (body.readChunks !== undefined) return { result: await readSome(storage, body.readChunks[0] as Digest[]) };
    if (body.readReachable !== undefined)
      return { result: await readSomeReachable(storage, body.readReachable[0] as Digest[]) };
    return call(storage, body);
  },
  'POST /v1/storage/change': ({ engine, body, signal }) => {
    if (body.commit !== undefined)
      return call(engine.storage, { commit: [toCommit(body.commit[0] as unknown as SentCommit)] });
    return call(engine.storage, body.collect === undefined ? body : { collect: [{ signal }] });
  },
} satisfies Partial<Handlers>;

async function call(storage: ChunkStorage, body: object) {
  const [[name, given] = ['', []]] = Object.entries(body) as [keyof ChunkStorage, unknown[]][];
  const method: unknown = storage[name as keyof ChunkStorage];
  if (typeof method !== 'function') throw new UnsupportedError(`A ${storage.kind} storage has no ${name}.`);
  const result: unknown = await Reflect.apply(method, storage, given);
  return result === undefined ? {} : { result };
}

/** A reply with chunks holds about this much at most: who asked asks for the rest. */
const REPLY_CHARS = 16 * 1024 ** 2;
const READ_AT_ONCE = 16;

/** The chunks in the order asked for, as far as they fit into a reply: of any that are left at least the first. */
async function readSome(storage: ChunkStorage, digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
  const found: (Chunk | undefined)[] = [];
  for (let chars = 0; found.length < digests.length && chars < REPLY_CHARS; ) {
    const chunks = await storage.readChunks(digests.slice(found.length, found.length + READ_AT_ONCE));
    for (const chunk of chunks) chars += chunk?.text.length ?? 0;
    found.push(...chunks);
  }
  return found;
}

/** What can be reached, each once, as far as it fits into a reply: what is missing is referred to by what is there. */
async function readSomeReachable(storage: ChunkStorage, digests: readonly Digest[]): Promise<Chunk[]> {
  const reachable = new Reachable<Digest>();
  reachable.add(digests);
  const found: Chunk[] = [];
  let chars = 0;
  for (let batch = reachable.take(); batch.length > 0 && chars < REPLY_CHARS; batch = reachable.take())
    for (const chunk of await readSome(storage, batch)) {
      if (chunk === undefined) continue;
      found.push(chunk);
      chars += chunk.text.length;
      reachable.add(chunk.refs);
    }
  return found;
}

type SentCommit = Omit<Commit, 'checkpoint'> & { readonly checkpoint?: Omit<NewCheckpoint, 'header'> };

/** A commit whose names are names, and whose parts are what their digests say: under a wrong one others would find them. */
function toCommit({ checkpoint: sent, ...rest }: SentCommit): Commit {
  try {
    for (const chunk of rest.chunks ?? []) checkChunk(chunk);
    const checkpoint = sent && toCheckpoint(sent);
    checkNames(rest, checkpoint);
    return { ...rest, ...(checkpoint !== undefined && { checkpoint }) };
  } catch (cause) {
    throw toInputError(cause, 'Nothing was stored.');
  }
}

function checkNames({ sessionId, refs = [], effects = [] }: Commit, checkpoint: NewCheckpoint | undefined): void {
  for (const name of [sessionId, ...refs.map((ref) => ref.name), ...effects.map(({ branch }) => branch)])
    parseName(name, 'A name in a commit');
  const sessions = [...(checkpoint === undefined ? [] : [checkpoint.header]), ...effects].map((each) => each.sessionId);
  const other = sessions.find((each) => each !== sessionId);
  if (other !== undefined)
    throw new InvalidInputError(`A commit to session "${sessionId}" brings something of session "${other}".`);
}

function toCheckpoint({ body, digest, root }: Omit<NewCheckpoint, 'header'>): NewCheckpoint {
  const header = parseCheckpointBody(body, digest);
  parseRoot(new Checkpoint(header, digest), root);
  return { header, body, digest, root };
}
