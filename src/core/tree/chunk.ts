import { hash } from 'node:crypto';
import { CorruptError } from '../errors.ts';
import { objectsError, readStub } from './object-stub.ts';

declare const brand: unique symbol;

/** SHA-256 in 64 lower-case hexadecimal characters: the name of immutable bytes. */
export type Digest = string & { readonly [brand]: 'Digest' };

/**
 * The content of a chunk: JSON text, and the digests of the chunks it refers to.
 * The n-th `{"$":0}` of the text, in reading order, stands for the n-th of `refs`.
 */
export type ChunkContent = { readonly text: string; readonly refs: readonly Digest[] };

/** An immutable piece of state, named by the digest of its canonical form. */
export type Chunk = ChunkContent & { readonly digest: Digest };

const DIGEST_CHARS = 64;
const HEX = /^[0-9a-f]*$/;

/** Whether a value is a digest. */
export function isDigest(value: unknown): value is Digest {
  return typeof value === 'string' && value.length === DIGEST_CHARS && HEX.test(value);
}

/** The SHA-256 of a text's UTF-8 bytes. */
export function digestText(text: string): Digest {
  return hash('sha256', text) as Digest;
}

/**
 * The canonical form of a chunk, which is what its digest covers: the text alone, or, if there are refs,
 * `#`, the refs without separators, a line feed and the text. JSON never starts with `#`, so the two cannot be confused.
 */
export function formatChunk({ text, refs }: ChunkContent): string {
  return refs.length === 0 ? text : `#${refs.join('')}\n${text}`;
}

/** Reads the canonical form back; throws a CorruptError if the ref line is not whole. */
export function parseChunk(canonical: string): ChunkContent {
  if (!canonical.startsWith('#')) return { text: canonical, refs: [] };
  const end = canonical.indexOf('\n');
  const line = canonical.slice(1, end);
  if (end < 0 || line.length % DIGEST_CHARS !== 0 || !HEX.test(line)) {
    throw new CorruptError('A chunk starts with a damaged line of references.');
  }
  return { text: canonical.slice(end + 1), refs: splitDigests(line) };
}

/** Cuts a run of hexadecimal digests into single ones. */
export function splitDigests(hexText: string): Digest[] {
  const digests: Digest[] = [];
  for (let at = 0; at < hexText.length; at += DIGEST_CHARS)
    digests.push(hexText.slice(at, at + DIGEST_CHARS) as Digest);
  return digests;
}

/** Names a content by its digest. */
export function createChunk(content: ChunkContent): Chunk {
  return { digest: digestText(formatChunk(content)), text: content.text, refs: content.refs };
}

/** Throws a CorruptError unless the content is what its digest says; of one that lies in an object store, an UnsupportedError. */
export function checkChunk(chunk: Chunk): void {
  const found = digestText(formatChunk(chunk));
  if (found !== chunk.digest) {
    if (readStub(chunk) !== undefined) throw objectsError();
    throw new CorruptError(
      `Chunk ${chunk.digest} is damaged: its content has the digest ${found}. Run verify to see what it affects.`,
      {
        details: { digest: chunk.digest, found },
      },
    );
  }
}
