import type { Digest } from '../../core/tree/chunk.ts';
import type { Commit, EffectRow, NewCheckpoint, RefChange } from '../contract.ts';
import type { SqlValue } from '../database/sqlite-driver.ts';
import { effectCheck, filedUnder } from '../marks.ts';
import { refCheck } from '../ref.ts';
import { checkCommit } from '../sql-text.ts';
import { encodeRecord, PREFIX_BYTES, packDigest, type TextEncoder } from './sqlite-codec.ts';

/** A ref change with the check of its new content. */
export type PreparedRef = { readonly change: RefChange; readonly check: string };

/** A chunk's columns; its refs become numbers in the transaction. */
export type PreparedChunk = {
  readonly digest: Digest;
  readonly prefix: Uint8Array;
  readonly rest: Uint8Array;
  readonly refs: readonly Digest[];
  readonly text: SqlValue;
};

/** A commit turned into columns before its transaction starts, so that encoding and compressing hold no lock. */
export type PreparedCommit = {
  readonly commit: Commit;
  readonly chunks: readonly PreparedChunk[];
  /** All columns after the session's number and the refs. */
  readonly checkpoint: readonly SqlValue[] | undefined;
  /** All columns after the session's number and the refs, with the refs of the result. */
  readonly effects: readonly { readonly columns: readonly SqlValue[]; readonly refs: readonly Digest[] }[];
  readonly refs: readonly PreparedRef[];
};

const NONE: readonly never[] = [];

/** Checks the parts that only the caller can have got wrong, and encodes the rest. */
export function prepareCommit(commit: Commit, encodeText: TextEncoder): PreparedCommit {
  const { sessionId, checkpoint, chunks = NONE, effects = NONE, refs = NONE } = commit;
  checkCommit(commit);
  return {
    commit,
    chunks: chunks.map(({ digest, refs: inner, text }) => {
      const bytes = packDigest(digest);
      return {
        digest,
        prefix: bytes.subarray(0, PREFIX_BYTES),
        rest: bytes.subarray(PREFIX_BYTES),
        refs: inner,
        text: encodeText(text),
      };
    }),
    checkpoint: checkpoint === undefined ? undefined : prepareCheckpoint(checkpoint, encodeText),
    effects: effects.map((effect) => prepareEffect(effect, encodeText)),
    refs: refs.map((change) => ({
      change,
      check: change.target === null ? '' : refCheck({ sessionId, ...change, target: change.target }),
    })),
  };
}

function prepareCheckpoint(checkpoint: NewCheckpoint, encodeText: TextEncoder): SqlValue[] {
  const { header, digest, root } = checkpoint;
  return [
    header.id,
    ...Object.values(filedUnder(header)),
    header.idempotencyKey ?? null,
    packDigest(digest),
    encodeRecord(checkpoint, encodeText),
    encodeText(root.text),
  ];
}

function prepareEffect(effect: EffectRow, encodeText: TextEncoder): PreparedCommit['effects'][number] {
  const { branch, ordinal, digest, body, result } = effect;
  const text = result === undefined ? null : encodeText(result.text);
  return {
    columns: [branch, ordinal, effectCheck(effect), packDigest(digest), encodeText(body), text],
    refs: result?.refs ?? [],
  };
}
