import type { SessionId } from '../../../core/record/id.ts';
import type { Chunk, Digest } from '../../../core/tree/chunk.ts';
import type { Commit, EffectRow, NewCheckpoint, NewEffect, RefChange } from '../../contract.ts';
import { effectCheck } from '../../marks.ts';
import { refCheck } from '../../ref.ts';
import { encodeRefs, encodeText, encodeTexts } from '../schema/sql-codec.ts';

/** What a commit takes beside its texts, roughly, so that many without any are not taken for nothing. */
const COMMIT_BYTES = 1_000;

/** What a commit weighs while it waits. */
export function sizeOf({ checkpoint, chunks = [], effects = [] }: Commit): number {
  const own = (checkpoint?.body.length ?? 0) + (checkpoint?.root.text.length ?? 0);
  const brought = chunks.reduce((sum, { text }) => sum + text.length, 0);
  const recorded = effects.reduce((sum, { body, result }) => sum + body.length + (result?.text.length ?? 0), 0);
  return COMMIT_BYTES + own + brought + recorded;
}

/** How many commits can share a transaction: effects are written at its end, so that none may expect what another one brings. */
export function countTogether(commits: readonly Commit[]): number {
  const brought = new Set<string>();
  const own = commits.findIndex(({ effects = [] }) => {
    const isLate = effects.some((effect) => effect.expect !== undefined && brought.has(placeOf(effect)));
    for (const effect of effects) brought.add(placeOf(effect));
    return isLate;
  });
  return own === -1 ? commits.length : own;
}

const placeOf = ({ sessionId, branch, ordinal }: EffectRow): string => JSON.stringify([sessionId, branch, ordinal]);

/** The arguments of `commit_batch` after tenant and role. */
export function encodeBatch(commits: readonly Commit[]): unknown[] {
  const recorded = commits.flatMap(({ effects = [] }) => effects);
  const effects = new Map(recorded.map((effect) => [placeOf(effect), encodeEffect(effect)]));
  const sorted = [...effects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, effect]) => effect);
  return [
    JSON.stringify(commits.map(encodeCommit)),
    ...encodeChunks(commits.flatMap(({ chunks = [] }) => chunks)),
    sorted.length === 0 ? null : JSON.stringify(sorted),
  ];
}

function encodeCommit(commit: Commit): object {
  const { sessionId, checkpoint, refs = [], effects = [] } = commit;
  const requires = requiredIds(commit);
  const expects = effects.flatMap(encodeExpectation);
  return {
    session: sessionId,
    checkpoint: checkpoint && encodeCheckpoint(checkpoint),
    refs: refs.map((change) => encodeRef(sessionId, change)),
    ...(requires.length > 0 && { requires }),
    parent: findParent(commit),
    ...(expects.length > 0 && { expects }),
  };
}

/** Which of a commit's effects expects what at its place. */
function encodeExpectation({ branch, ordinal, expect }: NewEffect, at: number): object[] {
  return expect === undefined ? [] : [{ at, branch, ordinal, digest: expect }];
}

/** The head that a branch is about to move from needs no look: what a branch points at cannot have been deleted. */
function requiredIds({ requires = [], refs = [] }: Commit): readonly string[] {
  return requires.filter((id) => !refs.some(({ kind, expect }) => kind === 'branch' && expect === id));
}

/** The checkpoint that a commit builds on, and the digest that it must have. */
function findParent({ checkpoint, requires = [] }: Commit): { id: string; digest: Digest } | undefined {
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
    key: idempotencyKey,
    digest,
    refs: encodeRefs(root.refs),
    body: encodeText(body),
    text: encodeText(root.text),
  };
}

function encodeRef(sessionId: SessionId, { kind, name, expect, target }: RefChange) {
  const mark = target === null ? null : refCheck({ sessionId, kind, name, target });
  return { kind, name, target, mark, due: kind === 'due' ? target : undefined, expect };
}

function encodeEffect(effect: EffectRow) {
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

/** Three columns, sorted, so that all commits lock chunks in one order; each digest once. */
function encodeChunks(chunks: readonly Chunk[]): Buffer[] {
  const sorted = [...new Map(chunks.map((chunk) => [chunk.digest, chunk])).values()];
  sorted.sort((a, b) => (a.digest < b.digest ? -1 : 1));
  return [
    encodeTexts(sorted.map(({ digest }) => digest)),
    encodeTexts(sorted.map(({ refs }) => encodeRefs(refs))),
    encodeTexts(sorted.map(({ text }) => encodeText(text))),
  ];
}

/** More than this a set does faster than a loop. */
const MAX_PLAIN_CHUNKS = 16;

/** A commit that a function of its own does, and the arguments after tenant and role. */
export type PlainCommit = { readonly kind: 'save' | 'record'; readonly values: readonly unknown[] };

/** Undefined for a commit that is not what nearly every one is, so that `commit_batch` must do it. */
export function encodePlain(commit: Commit): PlainCommit | undefined {
  const { checkpoint, chunks = [], effects = [] } = commit;
  if (chunks.length > MAX_PLAIN_CHUNKS || requiredIds(commit).length > 0) return undefined;
  const [effect] = effects;
  if (checkpoint !== undefined) return effect === undefined ? encodePlainSave(commit, checkpoint) : undefined;
  return effect !== undefined && effects.length === 1 ? encodePlainRecord(commit, effect) : undefined;
}

/**
 * The arguments of `save_one`: a checkpoint, maybe with a few chunks, that moves its branch from a known head, maybe under a lease,
 * or with a look at its log (empty: nowhere; null: anywhere).
 */
function encodePlainSave(commit: Commit, { header, digest, body, root }: NewCheckpoint): PlainCommit | undefined {
  const { id, branch, timestampMs, type, status, agentId, userId, idempotencyKey } = header;
  const { sessionId, refs = [], chunks = [] } = commit;
  const move = refs.find(({ kind, target }) => kind === 'branch' && target === id);
  const places = findPlaces(refs, branch, move);
  if (places === undefined || places.branch !== null || typeof move?.expect !== 'string') return undefined;
  const mark = refCheck({ sessionId, kind: 'branch', name: branch, target: id });
  const place = [sessionId, branch, move.expect, mark, places.lease, places.log, findParent(commit)?.digest ?? null];
  const described = [id, timestampMs, type, status, agentId, userId, idempotencyKey].map((value) => value ?? null);
  const sealed = [digest, encodeRefs(root.refs), encodeText(body), encodeText(root.text)];
  return { kind: 'save', values: [...place, ...described, ...sealed, ...encodeChunks(chunks)] };
}

/** Whether a row is a step that begins behind the last one, or takes the place of one that is known. */
function isStep({ expect }: NewEffect, move: RefChange | undefined): boolean {
  if (move === undefined) return typeof expect === 'string';
  return expect === undefined && typeof move.expect === 'string' && move.target !== null;
}

/** The arguments of `record_one`: the begin of a step or its end. */
function encodePlainRecord({ sessionId, refs = [], chunks = [] }: Commit, effect: NewEffect): PlainCommit | undefined {
  const { branch, ordinal, expect } = effect;
  const move = refs.find((change) => change.kind === 'log' && change.expect !== change.target);
  const places = findPlaces(refs, branch, move);
  if (places === undefined || places.log !== null || !isStep(effect, move)) return undefined;
  const next = move && encodeRef(sessionId, move);
  const place = [
    sessionId,
    branch,
    places.lease,
    places.branch,
    next?.expect,
    next?.target,
    next?.mark,
    ordinal,
    expect,
  ];
  const { mark, digest, refs: below, body, text } = encodeEffect(effect);
  return { kind: 'record', values: [...place, mark, digest, below, body, text, ...encodeChunks(chunks)] };
}

/** Where a branch, its lease and its log must be, beside what moves (empty: nowhere; null: anywhere); undefined if there is more to the changes than that. */
function findPlaces(refs: readonly RefChange[], branch: string, move: RefChange | undefined) {
  const checks = refs.filter((change) => change !== move);
  const isCheck = ({ kind, expect, target }: RefChange) =>
    expect === target &&
    target !== '' &&
    (kind === 'log' || kind === 'branch' || (kind === 'lease' && target !== null));
  if (!checks.every(isCheck) || !refs.every(({ name }) => name === branch)) return undefined;
  const placeOf = (wanted: string) => {
    const check = checks.find(({ kind }) => kind === wanted);
    return check === undefined ? null : (check.target ?? '');
  };
  return { branch: placeOf('branch'), lease: placeOf('lease'), log: placeOf('log') };
}
