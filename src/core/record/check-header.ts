import { Decoder } from '../codec/decode.ts';
import { ReadBudget } from '../codec/read-budget.ts';
import { CorruptError } from '../errors.ts';
import { type Digest, isDigest } from '../tree/chunk.ts';
import { ClassCodecs } from '../value/class-codec.ts';
import { DEFAULT_LIMITS } from '../value/format.ts';
import type { Json } from '../value/grammar.ts';
import type { JsonValue } from '../value/json.ts';
import type { CheckpointHeader, Tombstone } from './checkpoint-header.ts';
import { hasControlOrLoneSurrogate, isCheckpointId, isName } from './id.ts';

/** Whether a value is what a field of a record holds. */
export type Check = (value: unknown) => boolean;

/** What a Date can hold. */
const MAX_TIME_MS = 8.64e15;

export const isText: Check = (value) => typeof value === 'string';
const isLabel: Check = (value) => typeof value === 'string' && !hasControlOrLoneSurrogate(value);
export const isId: Check = (value) => typeof value === 'string' && isCheckpointId(value);
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTime: Check = (value) => typeof value === 'number' && Math.abs(value) <= MAX_TIME_MS;
const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isAnything: Check = () => true;

const HEADER_CHECKS: { readonly [Field in keyof Required<CheckpointHeader>]: Check } = {
  id: isId,
  sessionId: isName,
  branch: isName,
  parentId: isId,
  parentDigest: isDigest,
  needsParent: (value) => value === true,
  sequence: isCount,
  type: isName,
  trigger: isLabel,
  agentId: isName,
  agentType: isName,
  userId: isName,
  status: isLabel,
  timestampMs: isTime,
  name: isLabel,
  note: isText,
  author: isText,
  reason: isText,
  metadata: isObject,
  collectedFields: isAnything,
  requiredFields: isAnything,
  contextSummary: isText,
  fingerprint: isAnything,
  schemaVersion: (value) => typeof value === 'number',
  idempotencyKey: isName,
  effectCount: isCount,
  effectsInFlight: (value) => Array.isArray(value) && value.every(isCount),
  stateDigest: isDigest,
  stateBytes: isCount,
};

const { id, sessionId, branch, parentId, sequence, timestampMs, stateDigest, reason } = HEADER_CHECKS;
const TOMBSTONE_CHECKS: { readonly [Field in keyof Required<Tombstone>]: Check } = {
  id,
  sessionId,
  branch,
  parentId,
  sequence,
  timestampMs,
  stateDigest,
  reason,
  deletedAtMs: isTime,
  folded: isCount,
  foldedFrom: isId,
};

/** Whether a header or tombstone has no field but those of its kind. A newer release may write more, which loading takes as it is. */
export function findUnknownField(record: object, kind: 'checkpoint' | 'tombstone'): string | undefined {
  const known = kind === 'checkpoint' ? HEADER_CHECKS : TOMBSTONE_CHECKS;
  return Object.keys(record).find((field) => !Object.hasOwn(known, field));
}

/** The fields that every header has, in the order in which they are written. */
export const HEADER_KEYS = 'id sessionId branch sequence type timestampMs stateDigest stateBytes'.split(' ');
const TOMBSTONE_KEYS = 'id sessionId branch sequence timestampMs stateDigest deletedAtMs reason'.split(' ');

/** Fields in the codec's JSON form. */
const ENCODED_FIELDS = ['metadata', 'collectedFields', 'requiredFields', 'fingerprint'] as const;

/** Throws a CorruptError that names the first field which is not what a header holds. Digests prove who wrote it only to the writer. */
export function checkHeader(json: unknown, { hasTags }: { hasTags: boolean }): CheckpointHeader {
  const fields = checkFields(json, HEADER_CHECKS, { needed: HEADER_KEYS, what: 'The header of checkpoint' });
  const header = fields as CheckpointHeader;
  for (const field of ENCODED_FIELDS) if (header[field] !== undefined) checkEncoded(header, field, { hasTags });
  return header;
}

/** The same for what stays of a deleted checkpoint. */
export function checkTombstone(json: unknown): Tombstone {
  const expected = { needed: TOMBSTONE_KEYS, what: 'The tombstone of checkpoint' };
  return checkFields(json, TOMBSTONE_CHECKS, expected) as Tombstone;
}

function checkFields(
  json: unknown,
  checks: { readonly [field: string]: Check },
  { needed, what }: { needed: readonly string[]; what: string },
): unknown {
  if (!isObject(json)) throw new CorruptError(`${what} is not an object.`);
  const fields = json as { readonly [field: string]: unknown };
  const wrong =
    needed.find((field) => !Object.hasOwn(fields, field)) ??
    Object.keys(checks).find((field) => Object.hasOwn(fields, field) && checks[field]?.(fields[field]) !== true);
  if (wrong === undefined) return json;
  const id = isId(fields.id) ? fields.id : 'of an unknown id';
  throw new CorruptError(`${what} ${String(id)} is damaged: ${wrong} is ${describe(fields[wrong])}. Run verify.`, {
    details: { field: wrong, ...(isId(fields.id) && { id: fields.id }) },
  });
}

function describe(value: unknown): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

function checkEncoded(
  header: CheckpointHeader,
  field: (typeof ENCODED_FIELDS)[number],
  { hasTags }: { hasTags: boolean },
): void {
  try {
    if (hasTags) decodeField(header[field]);
    else new ReadBudget(DEFAULT_LIMITS).countPlain(header[field] as Json, 0);
  } catch (cause) {
    throw new CorruptError(`The header of checkpoint ${header.id} is damaged: its ${field} cannot be read.`, {
      cause,
      details: { field, id: header.id },
    });
  }
}

/** A value of the header as it was given: dates are dates again. */
export function decodeField(json: JsonValue | undefined): unknown {
  if (typeof json !== 'object' || json === null) return json;
  const decoder = new Decoder(findNothing, { codecs: NO_CLASSES, limits: DEFAULT_LIMITS });
  return decoder.decode({ text: JSON.stringify(json), refs: [] });
}

const NO_CLASSES = new ClassCodecs();

function findNothing(digest: Digest): never {
  throw new CorruptError(`A checkpoint's header refers to chunk ${digest}.`);
}
