import { Buffer } from 'node:buffer';
import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import { type Digest, splitDigests } from '../../core/tree/chunk.ts';
import { STUB_START } from '../../core/tree/object-stub.ts';
import type { NewCheckpoint } from '../contract.ts';
import { DICTIONARY_1 } from './compression-dictionary.ts';

/** Bytes of a digest in the index; enough to tell chunks apart, and half of what it would take whole. */
export const PREFIX_BYTES = 16;
export const DIGEST_BYTES = 32;
const DIGEST = /^[0-9a-f]{64}$/;

/** The first byte of a text stored as a BLOB: UTF-8 as it is, deflated with dictionary 1, or a packed record. */
const PLAIN = 0;
const DEFLATED_1 = 1;
const PACKED = 2;
const LEVEL = 6;
/** Below this the dictionary's gain is not worth the time. */
const MIN_COMPRESSED_CHARS = 48;
/** A shorter packed record is mostly digests and ids, which deflate does not make smaller. */
const MIN_COMPRESSED_RECORD_BYTES = 192;
/** A packed record: its form, the digests of its state and of its parent, and then what is left of its text. */
const RECORD_TEXT_AT = 1 + 2 * DIGEST_BYTES;
/** Of a code unit of a text. */
const MAX_UTF8_BYTES = 3;
/** Longer texts are stored as they are, so that reading may refuse to inflate more: a damaged file cannot exhaust memory. */
const MAX_INFLATED_BYTES = 256 * 1024 * 1024;

/** Loaded when something is compressed: it takes as long as opening a file. */
const zlib = () => process.getBuiltinModule('node:zlib');

/** Makes the stored form of a text. */
export type TextEncoder = (text: string) => string | Uint8Array;

/** Stores texts as SQLite TEXT. SQLite's texts end at a NUL, so the rare text with one becomes a BLOB. */
export function encodePlain(text: string): string | Uint8Array {
  return text.includes('\0') ? Buffer.concat([Buffer.of(PLAIN), Buffer.from(text)]) : text;
}

/** Stores texts deflated, if that makes them smaller; but not what names an object, which is looked for. */
export function encodeCompressed(text: string): string | Uint8Array {
  if (text.length < MIN_COMPRESSED_CHARS || text.startsWith(STUB_START)) return encodePlain(text);
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_INFLATED_BYTES) return encodePlain(text);
  const deflated = zlib().deflateRawSync(bytes, { level: LEVEL, dictionary: DICTIONARY_1 });
  return deflated.length + 1 < bytes.length ? Buffer.concat([Buffer.of(DEFLATED_1), deflated]) : encodePlain(text);
}

/** Reads either stored form back. */
export function decodeText(stored: string | Uint8Array): string {
  if (typeof stored === 'string') return stored;
  if (stored instanceof Uint8Array && stored[0] === PLAIN) return asBuffer(stored).toString('utf8', 1);
  if (stored instanceof Uint8Array && stored[0] === DEFLATED_1) return inflate(stored.subarray(1));
  throw new CorruptError(
    'A stored text is damaged: its first byte names no known form. Run verify to see what it affects.',
  );
}

function inflate(bytes: Uint8Array): string {
  try {
    return zlib().inflateRawSync(bytes, { dictionary: DICTIONARY_1, maxOutputLength: MAX_INFLATED_BYTES }).toString();
  } catch (cause) {
    throw new CorruptError('A compressed text is damaged. Run verify to see what it affects.', { cause });
  }
}

/** The stored form of a live checkpoint's record: packed, unless its text takes less. */
export function encodeRecord(checkpoint: NewCheckpoint, encodeText: TextEncoder): string | Uint8Array {
  const packed = packRecord(checkpoint);
  if (packed !== undefined && packed.length < MIN_COMPRESSED_RECORD_BYTES) return packed;
  const text = encodeText(checkpoint.body);
  return packed === undefined || text.length < packed.length ? text : packed;
}

/** A record as ours are written, of a checkpoint with a parent. What the caller says of it stands between the sequence and the time. */
const RECORD =
  /^\{"id":"([^"\\]*)","sessionId":"([^"\\]*)","branch":"([^"\\]*)","parentId":"chk_(\w{22})","parentDigest":"([0-9a-f]{64})","sequence":([^\n]*?),"timestampMs":(\d+)((?:,"(?:schemaVersion|effectCount|effectsInFlight)":[\d,[\]]+)*),"stateDigest":"([0-9a-f]{64})","stateBytes":(\d+)\}$/;

/**
 * A record without what the columns of its row say, and with its digests as bytes: a third of its length. Undefined if it is not
 * written as ours are. What the caller says stays as it is, so that metadata can be searched for.
 */
function packRecord({ header, body }: NewCheckpoint): Buffer | undefined {
  const [, id, session, branch, parent, parentDigest = '', said, time, rest, stateDigest = '', size] =
    RECORD.exec(body) ?? [];
  const isFiled = id === header.id && session === header.sessionId && branch === header.branch;
  if (!isFiled || time !== String(header.timestampMs)) return undefined;
  const text = `${parent}\n${size}\n${said}\n${rest}`;
  const packed = Buffer.allocUnsafe(RECORD_TEXT_AT + MAX_UTF8_BYTES * text.length);
  packed[0] = PACKED;
  packed.write(stateDigest, 1, 'hex');
  packed.write(parentDigest, 1 + DIGEST_BYTES, 'hex');
  return packed.subarray(0, RECORD_TEXT_AT + packed.write(text, RECORD_TEXT_AT));
}

/** The columns of a row that a packed record relies on. */
export type RecordColumns = {
  readonly id: string;
  readonly session: string | null;
  readonly branch: string | null;
  readonly timestampMs: number;
  readonly body: string | Uint8Array;
};

/** Reads every stored form of a record back. */
export function decodeRecord({ id, session, branch, timestampMs, body }: RecordColumns): string {
  if (!(body instanceof Uint8Array) || body[0] !== PACKED) return decodeText(body);
  const bytes = asBuffer(body);
  const [stateDigest, parentDigest] = splitDigests(bytes.toString('hex', 1, RECORD_TEXT_AT));
  const [parent, size, said, rest] = bytes.toString('utf8', RECORD_TEXT_AT).split('\n');
  return `{"id":"${id}","sessionId":"${session}","branch":"${branch}","parentId":"chk_${parent}","parentDigest":"${parentDigest}","sequence":${said},"timestampMs":${timestampMs}${rest},"stateDigest":"${stateDigest}","stateBytes":${size}}`;
}

/** A page of rows, which goes on where the last one ended. Where a page of SQLite is damaged, what was there may come again without end. */
export function checkGoesOn<Row extends { readonly n: number }>(
  rows: readonly Row[],
  isNext: (n: number) => boolean,
): readonly Row[] {
  if (rows.every(({ n }) => isNext(n))) return rows;
  throw new CorruptError('A table leads in circles. Run verify to see what it affects.');
}

/** Whether a text is a whole digest. */
export function isDigest(text: string): text is Digest {
  return DIGEST.test(text);
}

/** A digest's 32 bytes. */
export function packDigest(digest: string): Buffer {
  const bytes = Buffer.from(digest, 'hex');
  if (bytes.length !== DIGEST_BYTES || digest.length !== 2 * DIGEST_BYTES) {
    throw new InvalidInputError(`A digest has 64 hexadecimal characters; found ${JSON.stringify(digest)}.`);
  }
  return bytes;
}

export function unpackDigest(bytes: Uint8Array): Digest {
  return asBuffer(bytes).toString('hex') as Digest;
}

/** The digest whose halves two columns hold; in a damaged file they may hold anything. */
export function joinDigest({ prefix, rest }: { readonly prefix: unknown; readonly rest: unknown }): Digest {
  if (prefix instanceof Uint8Array && rest instanceof Uint8Array) return unpackDigest(Buffer.concat([prefix, rest]));
  throw new CorruptError('A digest is damaged. Run verify to see what it affects.');
}

/** Digests side by side, 32 bytes each. */
export function packRefs(refs: readonly Digest[]): Buffer {
  const hexText = refs.join('');
  const bytes = Buffer.from(hexText, 'hex');
  if (bytes.length !== refs.length * DIGEST_BYTES || hexText.length !== 2 * bytes.length) {
    throw new InvalidInputError('A chunk refers to something that is not a digest.');
  }
  return bytes;
}

/** A view of the same bytes: `Uint8Array` itself has no hexadecimal form. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
