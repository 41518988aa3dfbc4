import type { Commit, NewCheckpoint, RefChange } from '../../contract.ts';
import { refCheck } from '../../ref.ts';
import { encodeRefs, encodeText } from '../schema/sql-codec.ts';
import { encodeChunks, requiredIds } from './encoded-commit.ts';

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
  const place = [commit.sessionId, branch, plain.expect, mark, plain.lease];
  const described = [id, timestampMs, type, status, agentId, userId, idempotencyKey].map((value) => value ?? null);
  const sealed = [digest, encodeRefs(root.refs), encodeText(body), encodeText(root.text)];
  return [...place, ...described, ...sealed, ...encodeChunks(commit.chunks ?? [])];
}

function findPlainSave(commit: Commit): PlainSave | undefined {
  const { checkpoint, refs = [] } = commit;
  if (checkpoint === undefined || !isSmall(commit)) return undefined;
  const { id, branch } = checkpoint.header;
  const move = refs.find((ref) => ref.kind === 'branch' && ref.name === branch && ref.target === id);
  const lease = refs.find((ref) => ref.kind === 'lease' && ref.name === branch && isCheck(ref));
  const isAll = refs.length === (lease === undefined ? 1 : 2);
  if (!isAll || typeof move?.expect !== 'string') return undefined;
  return { checkpoint, expect: move.expect, lease: lease?.target ?? null };
}

/** Whether nothing but a few chunks comes with it. */
function isSmall(commit: Commit): boolean {
  const { chunks = [], effects = [] } = commit;
  if (effects.length > 0 || chunks.length > MAX_PLAIN_CHUNKS) return false;
  return requiredIds(commit).length === 0;
}

function isCheck({ expect, target }: RefChange): boolean {
  return typeof expect === 'string' && expect === target;
}
