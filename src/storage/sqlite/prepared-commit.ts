import { type Digest, digestText } from '../../core/chunk.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Commit, EffectRow, NewCheckpoint, RefChange } from '../contract.ts';
import { refCheck } from '../ref.ts';
import { PREFIX_BYTES, packDigest, type TextEncoder } from './sqlite-codec.ts';
import { isBindable, type SqlValue } from './sqlite-driver.ts';

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
  if (checkpoint !== undefined && checkpoint.header.sessionId !== sessionId) {
    throw new InvalidInputError(
      `Checkpoint ${checkpoint.header.id} belongs to session "${checkpoint.header.sessionId}", but the commit to "${sessionId}".`,
    );
  }
  checkNames(commit);
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

/** Names become keys of indexes, where one that SQLite cuts off would be taken for another. */
function checkNames({ sessionId, checkpoint, effects = NONE, refs = NONE }: Commit): void {
  checkName(sessionId);
  for (const { name, target } of refs) {
    checkName(name);
    checkName(target);
  }
  for (const { branch } of effects) checkName(branch);
  if (checkpoint === undefined) return;
  const { id, branch, type, status, userId, agentId, idempotencyKey } = checkpoint.header;
  for (const name of [id, branch, type, status, userId, agentId, idempotencyKey]) checkName(name);
}

function checkName(name: string | null | undefined): void {
  if (name === undefined || name === null || isBindable(name)) return;
  throw new InvalidInputError(`A name must be well-formed text without NUL characters; found ${JSON.stringify(name)}.`);
}

function prepareCheckpoint({ header, body, digest, root }: NewCheckpoint, encodeText: TextEncoder): SqlValue[] {
  return [
    header.id,
    header.timestampMs,
    header.branch,
    header.type,
    header.status ?? null,
    header.agentId ?? null,
    header.userId ?? null,
    header.idempotencyKey ?? null,
    packDigest(digest),
    encodeText(body),
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

/** Sixteen hexadecimal characters that change if any part of an effect does, its place too. */
export function effectCheck({ sessionId, branch, ordinal, digest, body, result }: EffectRow): string {
  return digestText(JSON.stringify([sessionId, branch, ordinal, digest, body, result?.text, result?.refs])).slice(
    0,
    16,
  );
}

/** The same for a tombstone, whose digest is that of the record it replaces. */
export function tombstoneCheck({ id, digest, body }: { id: string; digest: Digest; body: string }): string {
  return digestText(JSON.stringify([id, digest, body])).slice(0, 16);
}
