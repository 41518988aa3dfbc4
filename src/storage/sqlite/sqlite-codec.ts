import { Buffer } from 'node:buffer';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { DICTIONARY_1 } from './compression-dictionary.ts';

/** Bytes of a digest in the index; enough to tell chunks apart, and half of what it would take whole. */
export const PREFIX_BYTES = 16;
export const DIGEST_BYTES = 32;
const DIGEST = /^[0-9a-f]{64}$/;

/** The first byte of a text stored as a BLOB: UTF-8 as it is, or deflated with dictionary 1. */
const PLAIN = 0;
const DEFLATED_1 = 1;
const LEVEL = 6;
/** Below this the dictionary's gain is not worth the time. */
const MIN_COMPRESSED_CHARS = 48;
/** Longer texts are stored as they are, so that reading may refuse to inflate more: a damaged file cannot exhaust memory. */
const MAX_INFLATED_BYTES = 256 * 1024 * 1024;

/** Makes the stored form of a text. */
export type TextEncoder = (text: string) => string | Uint8Array;

/** Stores texts as SQLite TEXT. SQLite's texts end at a NUL, so the rare text with one becomes a BLOB. */
export function encodePlain(text: string): string | Uint8Array {
  return text.includes('\0') ? Buffer.concat([Buffer.of(PLAIN), Buffer.from(text)]) : text;
}

/** Stores texts deflated, if that makes them smaller. */
export function encodeCompressed(text: string): string | Uint8Array {
  if (text.length < MIN_COMPRESSED_CHARS) return encodePlain(text);
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_INFLATED_BYTES) return encodePlain(text);
  const deflated = deflateRawSync(bytes, { level: LEVEL, dictionary: DICTIONARY_1 });
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
    return inflateRawSync(bytes, { dictionary: DICTIONARY_1, maxOutputLength: MAX_INFLATED_BYTES }).toString();
  } catch (cause) {
    throw new CorruptError('A compressed text is damaged. Run verify to see what it affects.', { cause });
  }
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
