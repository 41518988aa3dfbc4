import { hasErrorCode, InvalidInputError, messageOf, UnsupportedError, withoutAdvice } from '../../core/errors.ts';
import { Checkpoint, parseCheckpointBody } from '../../core/record/checkpoint.ts';
import { parseName } from '../../core/record/id.ts';
import { checkChunk } from '../../core/tree/chunk.ts';
import { parseRoot } from '../../manager/engine/records.ts';
import type { ChunkStorage, Commit, NewCheckpoint } from '../../storage/contract.ts';
import type { Handlers } from './call.ts';

/** Answers those who work on the storage itself. */
export const STORAGE_HANDLERS = {
  'POST /v1/storage/read': ({ engine, body }) => call(engine.storage, body),
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

type SentCommit = Omit<Commit, 'checkpoint'> & { readonly checkpoint?: Omit<NewCheckpoint, 'header'> };

/** A commit whose names are names, and whose parts are what their digests say: under a wrong one others would find them. */
function toCommit({ checkpoint: sent, ...rest }: SentCommit): Commit {
  try {
    for (const chunk of rest.chunks ?? []) checkChunk(chunk);
    const checkpoint = sent && toCheckpoint(sent);
    checkNames(rest, checkpoint);
    return { ...rest, ...(checkpoint !== undefined && { checkpoint }) };
  } catch (cause) {
    if (!hasErrorCode(cause, 'CORRUPT')) throw cause;
    throw new InvalidInputError(`Nothing was stored. ${withoutAdvice(messageOf(cause))}`, { cause });
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
