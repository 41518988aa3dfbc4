import type { Chunk, Digest } from '../../../core/tree/chunk.ts';
import type { Commit, EffectRow, NewCheckpoint, NewEffect, RefChange } from '../../contract.ts';
import { effectCheck } from '../../marks.ts';
import { refCheck } from '../../ref.ts';
import { checkCommit } from '../../sql-text.ts';
import { encodeRefs, encodeText } from '../schema/sql-codec.ts';

/** What a commit takes beside its texts, roughly, so that many without any are not taken for nothing. */
const COMMIT_BYTES = 1_000;

/** A commit that was checked, and what it weighs while it waits. */
export type AcceptedCommit = { readonly commit: Commit; readonly sizeBytes: number };

/** Checks what only the caller can have got wrong. */
export function acceptCommit(commit: Commit): AcceptedCommit {
  checkCommit(commit);
  const { checkpoint, chunks = [], effects = [] } = commit;
  const own = (checkpoint?.body.length ?? 0) + (checkpoint?.root.text.length ?? 0);
  const brought = chunks.reduce((sum, { text }) => sum + text.length, 0);
  const recorded = effects.reduce((sum, { body, result }) => sum + body.length + (result?.text.length ?? 0), 0);
  return { commit, sizeBytes: COMMIT_BYTES + own + brought + recorded };
}

function toJson(commit: Commit): object {
  const { sessionId, checkpoint, refs = [], effects = [] } = commit;
  const requires = requiredIds(commit);
  const parent = findParent(commit);
  const expects = effects.flatMap(encodeExpectation);
  return {
    session: sessionId,
    ...(checkpoint !== undefined && { checkpoint: encodeCheckpoint(checkpoint) }),
    refs: refs.map((change) => encodeRef(change, commit)),
    ...(requires.length > 0 && { requires }),
    ...(parent !== undefined && { parent }),
    ...(expects.length > 0 && { expects }),
  };
}

/** Which of a commit's effects expects what at its place. */
function encodeExpectation({ branch, ordinal, expect }: NewEffect, at: number): object[] {
  return expect === undefined ? [] : [{ at, branch, ordinal, digest: expect }];
}

/** How many commits can share a transaction: effects are written at its end, so that none may expect what another one brings. */
export function countTogether(waiting: readonly AcceptedCommit[]): number {
  const brought = new Set<string>();
  const own = waiting.findIndex(({ commit: { effects = [] } }) => {
    const isLate = effects.some((effect) => effect.expect !== undefined && brought.has(placeOf(effect)));
    for (const effect of effects) brought.add(placeOf(effect));
    return isLate;
  });
  return own === -1 ? waiting.length : own;
}

/** The arguments of `commit_batch` after tenant and role. */
export function encodeBatch(batch: readonly AcceptedCommit[]): unknown[] {
  const effects = new Map<string, object>();
  for (const { commit } of batch)
    for (const effect of commit.effects ?? []) effects.set(placeOf(effect), encodeEffect(effect));
  return [
    JSON.stringify(batch.map(({ commit }) => toJson(commit))),
    ...encodeChunks(batch.flatMap(({ commit }) => commit.chunks ?? [])),
    effects.size === 0 ? null : JSON.stringify([...effects.entries()].sort(byPlace).map(([, effect]) => effect)),
  ];
}

/** Three columns, sorted, so that all commits lock chunks in one order; each digest once. */
function encodeChunks(chunks: readonly Chunk[]): [Digest[], (string | null)[], string[]] {
  const sorted = [...new Map(chunks.map((chunk) => [chunk.digest, chunk])).values()];
  sorted.sort((a, b) => (a.digest < b.digest ? -1 : 1));
  return [
    sorted.map(({ digest }) => digest),
    sorted.map(({ refs }) => encodeRefs(refs)),
    sorted.map(({ text }) => encodeText(text)),
  ];
}

const placeOf = ({ sessionId, branch, ordinal }: EffectRow): string => JSON.stringify([sessionId, branch, ordinal]);

const byPlace = ([a]: [string, object], [b]: [string, object]): number => (a < b ? -1 : 1);

/** The head that a branch is about to move from needs no look: what a branch points at cannot have been deleted. */
function requiredIds({ requires = [], refs = [] }: Commit): readonly string[] {
  const heads = new Set<string>();
  for (const { kind, expect } of refs) if (kind === 'branch' && typeof expect === 'string') heads.add(expect);
  return requires.filter((id) => !heads.has(id));
}

/** The checkpoint that a commit builds on, and the digest that it must have. */
function findParent({
  checkpoint,
  requires = [],
}: Commit): { readonly id: string; readonly digest: Digest } | undefined {
  const { parentId: id, parentDigest: digest } = checkpoint?.header ?? {};
  return id !== undefined && digest !== undefined && requires.includes(id) ? { id, digest } : undefined;
}

function encodeCheckpoint({ header, body, digest, root }: NewCheckpoint): object {
  const { id, timestampMs, branch, type, status, agentId, userId, idempotencyKey } = header;
  return {
    id,
    timestamp: timestampMs,
    branch,
    type,
    status,
    agent: agentId,
    user: userId,
    ...(idempotencyKey !== undefined && { key: idempotencyKey }),
    digest,
    refs: encodeRefs(root.refs),
    body: encodeText(body),
    text: encodeText(root.text),
  };
}

function encodeRef({ kind, name, expect, target }: RefChange, { sessionId }: Commit): object {
  const mark = target === null ? null : refCheck({ sessionId, kind, name, target });
  return { kind, name, target, mark, ...(kind === 'due' && { due: target }), ...(expect !== undefined && { expect }) };
}

function encodeEffect(effect: EffectRow): object {
  const { sessionId, branch, ordinal, digest, body, result } = effect;
  return {
    session: sessionId,
    branch,
    ordinal,
    mark: effectCheck(effect),
    digest,
    refs: encodeRefs(result?.refs ?? []),
    body: encodeText(body),
    text: result === undefined ? null : encodeText(result.text),
  };
}

/** More than this a set does faster than a loop. */
const MAX_PLAIN_CHUNKS = 16;

/** What nearly every commit is: one checkpoint that moves its branch from a known head, maybe under a lease, or with a look at its log. */
type PlainSave = {
  readonly checkpoint: NewCheckpoint;
  readonly expect: string;
  readonly lease: string | null;
  /** Where the log must be; empty: nowhere; null: anywhere. */
  readonly log: string | null;
};

/** The arguments of `save_one` after tenant and role; undefined for a commit that is not a plain save. */
export function encodePlainSave(commit: Commit): unknown[] | undefined {
  const plain = findPlainSave(commit);
  if (plain === undefined) return undefined;
  const { header, digest, body, root } = plain.checkpoint;
  const { id, branch, timestampMs, type, status, agentId, userId, idempotencyKey } = header;
  const mark = refCheck({ sessionId: commit.sessionId, kind: 'branch', name: branch, target: id });
  const { expect, lease, log } = plain;
  const place = [commit.sessionId, branch, expect, mark, lease, log, findParent(commit)?.digest ?? null];
  const described = [id, timestampMs, type, status, agentId, userId, idempotencyKey].map((value) => value ?? null);
  const sealed = [digest, encodeRefs(root.refs), encodeText(body), encodeText(root.text)];
  return [...place, ...described, ...sealed, ...encodeChunks(commit.chunks ?? [])];
}

function findPlainSave(commit: Commit): PlainSave | undefined {
  const { checkpoint, refs = [] } = commit;
  if (checkpoint === undefined || !isSmall(commit)) return undefined;
  const { id, branch } = checkpoint.header;
  const move = refs.find(({ kind, name, target }) => kind === 'branch' && name === branch && target === id);
  const checks = findChecks(
    refs.filter((ref) => ref !== move),
    branch,
  );
  if (checks === undefined || typeof move?.expect !== 'string') return undefined;
  return { checkpoint, expect: move.expect, ...checks };
}

/** Where lease and log of the branch must be; undefined if there is more to the changes than that. */
function findChecks(refs: readonly RefChange[], branch: string): Pick<PlainSave, 'lease' | 'log'> | undefined {
  let lease: string | null = null;
  let log: string | null = null;
  for (const { kind, name, expect, target } of refs) {
    if (name !== branch || expect !== target) return undefined;
    if (kind === 'log') log = target ?? '';
    else if (kind === 'lease' && target !== null) lease = target;
    else return undefined;
  }
  return { lease, log };
}

/** Whether nothing but a few chunks comes with it. */
function isSmall(commit: Commit): boolean {
  const { chunks = [], effects = [] } = commit;
  if (effects.length > 0 || chunks.length > MAX_PLAIN_CHUNKS) return false;
  return requiredIds(commit).length === 0;
}
