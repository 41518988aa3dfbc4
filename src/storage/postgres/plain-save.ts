import type { Commit, NewCheckpoint, RefChange } from '../contract.ts';
import { refCheck } from '../ref.ts';
import { encodeChunks, requiredIds } from './encoded-commit.ts';
import { encodeRefs, encodeText } from './sql-codec.ts';

/** More than this a set does faster than a loop. */
const MAX_PLAIN_CHUNKS = 16;

/** What nearly every commit is: one checkpoint that moves its branch from a known head, maybe under a lease. */
type PlainSave = { readonly checkpoint: NewCheckpoint; readonly expect: string; readonly lease: string | null };

/** The arguments of `save_one` after tenant and role; undefined for a commit that is not a plain save. */
export function encodePlainSave(commit: Commit): unknown[] | undefined {
  const plain = findPlainSave(commit);
  if (plain === undefined) return undefined;
  const { header, digest, body, root } = plain.checkpoint;
  const { id, branch, timestampMs, type, status, agentId, userId, idempotencyKey } = header;
  const mark = refCheck({ sessionId: commit.sessionId, kind: 'branch', name: branch, target: id });
  return [
    ...[commit.sessionId, branch, plain.expect, mark, plain.lease],
    ...[id, timestampMs, type, status, agentId, userId, idempotencyKey].map((value) => value ?? null),
    ...[digest, encodeRefs(root.refs), encodeText(body), encodeText(root.text)],
    ...encodeChunks(commit.chunks ?? []),
  ];
}

function findPlainSave(commit: Commit): PlainSave | undefined {
  const { checkpoint, chunks = [], effects = [], refs = [], durability } = commit;
  const isSmall = chunks.length <= MAX_PLAIN_CHUNKS && effects.length === 0;
  if (checkpoint === undefined || !isSmall || durability === 'relaxed' || requiredIds(commit).length > 0)
    return undefined;
  const { id, branch } = checkpoint.header;
  const [move] = refs.filter((ref) => ref.kind === 'branch' && ref.name === branch && ref.target === id);
  const [lease] = refs.filter((ref) => isCheck(ref) && ref.kind === 'lease' && ref.name === branch);
  const isAll = refs.length === (lease === undefined ? 1 : 2);
  if (!isAll || typeof move?.expect !== 'string') return undefined;
  return { checkpoint, expect: move.expect, lease: lease?.target ?? null };
}

function isCheck({ expect, target }: RefChange): boolean {
  return typeof expect === 'string' && expect === target;
}
