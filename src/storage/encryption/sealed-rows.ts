import { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import type { SessionId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, formatChunk } from '../../core/tree/chunk.ts';
import { objectsError, readStub } from '../../core/tree/object-stub.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  EffectRow,
  NewCheckpoint,
  NewEffect,
  Ref,
  RefChange,
  RefKind,
} from '../contract.ts';
import { nameCheck } from '../named-bytes.ts';
import { fieldsOf } from '../query.ts';
import { refCheck } from '../ref.ts';
import type { Lock, Vault } from './vault.ts';

const BLINDED = ['type', 'status', 'agentId', 'userId', 'idempotencyKey'] as const;

export const sealSession = (vault: Vault, sessionId: string): SessionId => vault.sealName(sessionId) as SessionId;
export const openSession = (vault: Vault, sealed: string): SessionId => vault.openName(sealed) as SessionId;

/** A checkpoint as the storage below keeps it. */
export function sealCheckpoint(vault: Vault, lock: Lock, { header, body, digest, root }: NewCheckpoint): NewCheckpoint {
  const { id, parentId, parentDigest, timestampMs, metadata } = header;
  const clear = {
    id,
    ...(parentId !== undefined && { parentId }),
    ...sealPlace(vault, header),
    timestampMs,
    ...blindFields(vault, header),
    ...(metadata !== undefined && { metadata: blindMetadata(vault, fieldsOf(metadata)) }),
  };
  const text = JSON.stringify(clear);
  return {
    header: {
      ...clear,
      ...(parentDigest !== undefined && { parentDigest: vault.hideDigest(parentDigest) }),
    } as CheckpointHeader,
    body: joinSealed(text, lock.seal(body, text)),
    digest: vault.hideDigest(digest),
    root: sealContent(lock, root, `root ${id}`),
  };
}

/** What stays of a checkpoint, as the storage below keeps it. */
export function sealTombstone(vault: Vault, body: string): string {
  const tombstone = JSON.parse(body) as Tombstone;
  const { id, parentId, timestampMs, deletedAtMs } = tombstone;
  const clear = JSON.stringify({
    id,
    ...(parentId !== undefined && { parentId }),
    ...sealPlace(vault, tombstone),
    timestampMs,
    deletedAtMs,
  });
  return joinSealed(clear, vault.sealTombstone(body, clear));
}

/** Reads a row back. Throws a KeyError if its key is not there, and a CorruptError if it is not what was written. */
export function openRow(vault: Vault, { id, sessionId, digest, body, isDeleted }: CheckpointRow): CheckpointRow {
  const what = `Checkpoint ${id}`;
  const { sealed, clear } = splitSealed(body, what);
  return {
    id,
    sessionId: openSession(vault, sessionId),
    digest: vault.revealDigest(digest),
    body: isDeleted ? vault.openTombstone(sealed, clear, what) : vault.open(sealed, clear, what),
    isDeleted,
  };
}

/** The same with the root of its state. */
export function openRowWithRoot(vault: Vault, row: CheckpointRowWithRoot): CheckpointRowWithRoot {
  const opened = openRow(vault, row);
  if (row.root === undefined) return opened;
  return { ...opened, root: openContent(vault, row.root, { place: `root ${row.id}`, what: `Checkpoint ${row.id}` }) };
}

/** The sealed text of a row, which names its key. */
export function sealedTextOf({ id, body }: CheckpointRow): string {
  return splitSealed(body, `Checkpoint ${id}`).sealed;
}

const SEALED = ',"sealed":"';

/** What is in the clear is JSON and the place of what is sealed, so that neither can be changed or exchanged. */
const joinSealed = (clear: string, sealed: string): string => `${clear.slice(0, -1)}${SEALED}${sealed}"}`;

function splitSealed(body: string, what: string): { readonly clear: string; readonly sealed: string } {
  const at = body.lastIndexOf(SEALED);
  if (at > 0) return { clear: `${body.slice(0, at)}}`, sealed: body.slice(at + SEALED.length, -2) };
  throw new CorruptError(
    `${what} is not encrypted, and was not written through these keys. Copy a plain storage into a new, encrypted one.`,
  );
}

function sealPlace(vault: Vault, { sessionId, branch }: { sessionId: string; branch: string }) {
  return { sessionId: sealSession(vault, sessionId), branch: vault.sealName(branch) };
}

/** The names in a chunk, or in a root or result, and its text, which opens only with them and at its place. */
function sealContent(lock: Lock, { text, refs }: ChunkContent, place: string): ChunkContent {
  const names = lock.chunks.hide(refs);
  return { text: lock.seal(text, `${place} ${names.join('')}`), refs: names };
}

function openContent(
  vault: Vault,
  { text, refs }: ChunkContent,
  { place, what }: { readonly place: string; readonly what: string },
): ChunkContent {
  const opened = vault.open(text, `${place} ${refs.join('')}`, what);
  return { text: opened, refs: vault.lockOf(text, what).chunks.reveal(refs) };
}

export function sealChunk(lock: Lock, chunk: Chunk): Chunk {
  const [digest = chunk.digest] = lock.chunks.hide([chunk.digest]);
  const { text, refs } = sealContent(lock, chunk, `chunk ${digest}`);
  return { digest, text: `${text}.${nameCheck(digest, formatChunk({ text, refs }))}`, refs };
}

export function openChunk(vault: Vault, chunk: Chunk): Chunk {
  const what = 'A chunk';
  if (readStub(chunk) !== undefined) throw objectsError();
  const [digest = chunk.digest] = vault.lockOf(chunk.text, what).chunks.reveal([chunk.digest]);
  return { digest, ...openContent(vault, chunk, { place: `chunk ${chunk.digest}`, what: `Chunk ${digest}` }) };
}

export function sealEffect(vault: Vault, lock: Lock, effect: NewEffect): NewEffect {
  const { ordinal, body, digest, result, expect } = effect;
  const place = { ...sealPlace(vault, effect), ordinal };
  const where = `effect ${JSON.stringify(place)}`;
  return {
    ...place,
    body: lock.seal(body, where),
    digest: vault.hideDigest(digest),
    ...(result !== undefined && { result: sealContent(lock, result, `result of ${where}`) }),
    ...(expect !== undefined && { expect: expect === null ? null : vault.hideDigest(expect) }),
  };
}

export function openEffect(vault: Vault, { sessionId, branch, ordinal, body, digest, result }: EffectRow): EffectRow {
  const place = { sessionId: openSession(vault, sessionId), branch: vault.openName(branch), ordinal };
  const where = `effect ${JSON.stringify({ sessionId, branch, ordinal })}`;
  const what = `Effect ${ordinal} of branch "${place.branch}" of session "${place.sessionId}"`;
  return {
    ...place,
    body: vault.open(body, where, what),
    digest: vault.revealDigest(digest),
    ...(result !== undefined && { result: openContent(vault, result, { place: `result of ${where}`, what }) }),
  };
}

/** Storages look at ids and counts, and sort what is due. */
const isOpenTarget = (kind: RefKind, target: string): boolean => kind === 'due' || /^\d+$/.test(target);

function sealTarget(vault: Vault, kind: RefKind, target: string): string {
  return isOpenTarget(kind, target) ? target : vault.sealName(target);
}

export function sealRefChange(vault: Vault, { kind, name, expect, target }: RefChange): RefChange {
  return {
    kind,
    name: vault.sealName(name),
    ...(expect !== undefined && { expect: expect === null ? null : sealTarget(vault, kind, expect) }),
    target: target === null ? null : sealTarget(vault, kind, target),
  };
}

export function sealRef(vault: Vault, ref: Ref): Ref {
  const { kind, name, target } = ref;
  return {
    ...ref,
    sessionId: sealSession(vault, ref.sessionId),
    name: vault.sealName(name),
    target: sealTarget(vault, kind, target),
  };
}

/** A ref that was damaged below stays one that does not pass its check. */
export function openRef(vault: Vault, ref: Ref): Ref {
  const { kind, target } = ref;
  const opened = {
    sessionId: openSession(vault, ref.sessionId),
    kind,
    name: vault.openName(ref.name),
    target: isOpenTarget(kind, target) ? target : vault.openName(target),
  };
  return { ...opened, check: ref.check === refCheck(ref) ? refCheck(opened) : ref.check };
}

/** A query in the terms of the storage below. */
export function sealQuery(vault: Vault, { sessionId, branch, metadata, ...query }: CheckpointQuery): CheckpointQuery {
  return {
    ...query,
    ...(sessionId !== undefined && { sessionId: sealSession(vault, sessionId) }),
    ...(branch !== undefined && { branch: vault.sealName(branch) }),
    ...blindFields(vault, query),
    ...(metadata !== undefined && { metadata: blindMetadata(vault, new Map(Object.entries(metadata))) }),
  };
}

function blindFields(vault: Vault, fields: { readonly [Field in (typeof BLINDED)[number]]?: string | undefined }) {
  const blinded: { [Field in (typeof BLINDED)[number]]?: string } = {};
  for (const field of BLINDED) {
    const value = fields[field];
    if (value !== undefined) blinded[field] = vault.blind(field, value);
  }
  return blinded;
}

/** Equal values of one key stay equal, which is all that a query asks. */
function blindMetadata(vault: Vault, fields: ReadonlyMap<string, JsonValue>): { readonly [key: string]: JsonValue } {
  return Object.fromEntries(
    [...fields].map(([key, value]) => [
      vault.blind('metadata', key),
      vault.blind('metadata value', `${key}\n${JSON.stringify(value)}`),
    ]),
  );
}
