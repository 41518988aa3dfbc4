import { withoutUndefined } from '../../core/defined.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { Ref } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { parseRow, parseRows } from '../engine/repository.ts';
import { GROUP_TYPE, redactText } from '../engine/save-options.ts';
import { type PinCase, type PinReview, releaseStalePins, unpinGroups } from '../group/group-pins.ts';
import { judge, type RetentionPolicy, type TypeRetention, type Verdict } from './retention.ts';
import { hasKeepRule } from './retention-keep.ts';
import { checkUnneeded, SessionNeeds } from './retention-needs.ts';
import { mergeRetention } from './retention-policy.ts';
import { type Protections, readProtections } from './retention-protections.ts';
import { RetentionQueue } from './retention-queue.ts';
import { deleteCheckpoints, orIfDamaged, readHeaders } from './retention-records.ts';

/** What retention did, or would do. */
export type PruneResult = {
  readonly verdicts: readonly Verdict[];
  readonly deleted: readonly CheckpointId[];
  readonly isDryRun: boolean;
};

/** What `prune` judges, by which policy, and whether it deletes. */
export type PruneOptions = {
  /** Judges and deletes in this session only. Limits of `policy` then count in it; the manager's own limits are left out. */
  readonly sessionId?: string | undefined;
  /** Replaces the manager's general rules; the rules of types still hold. */
  readonly policy?: RetentionPolicy | undefined;
  /** Only says what would be deleted, and why. */
  readonly dryRun?: boolean | undefined;
};

/** After a save the storage's own guard is enough: it never deletes what a branch, tag or pin points at. */
const UNKNOWN = { protections: new Map(), completed: new Set<CheckpointId>(), cleared: new Set<CheckpointId>() };

const PAGE = 500;
const DELETE_BATCH = 200;
/** Once a limit takes whole sessions it takes a hundredth more, so that not every save has to judge them all. */
const SLACK = 0.01;

/** What was judged, and what it was judged by. */
type Judgement = {
  readonly headers: readonly CheckpointHeader[];
  readonly verdicts: readonly Verdict[];
  readonly refs: Protections['refs'];
};

/** Applies a retention policy to a storage. Deleting leaves tombstones, except of whole sessions; chunks go with the next gc. */
export class RetentionRunner {
  readonly #engine: Engine;
  readonly #policy: RetentionPolicy;
  readonly #needs: SessionNeeds;

  constructor(engine: Engine, policy: RetentionPolicy) {
    this.#engine = engine;
    this.#policy = policy;
    this.#needs = new SessionNeeds(engine.storage);
  }

  /** Made with what a storage and the user want kept; it cleans up behind the saves of this engine from now on. */
  static open(engine: Engine, policy: RetentionPolicy | undefined): RetentionRunner {
    const runner = new RetentionRunner(engine, mergeRetention(policy, engine.storage));
    engine.cleanUpBy(new RetentionQueue(runner, (error) => engine.events.report(error, 'retention')));
    return runner;
  }

  /** Whether checkpoints of this type are kept until they are marked so. */
  keepsUntil(mark: 'completed' | 'cleared', type: string): boolean {
    const { untilCompleted, untilCleared } = this.#policy.types?.[type] ?? {};
    return (mark === 'completed' ? untilCompleted : untilCleared) === true;
  }

  /** Judges everything, or one session; deletes what is not kept unless `dryRun`. */
  async prune({ sessionId: place, policy, dryRun = false }: PruneOptions = {}): Promise<PruneResult> {
    const sessionId = place === undefined ? undefined : parseSessionId(place);
    await this.#engine.settled();
    const { maxCheckpoints: _all, maxCheckpointsPerUser: _perUser, ...ofSession } = this.#policy;
    const own = sessionId === undefined ? this.#policy : ofSession;
    const given = { types: this.#policy.types ?? {}, ...withoutUndefined(policy ?? own) };
    const judgement = await this.#judge(given, sessionId, dryRun);
    const { verdicts } = judgement;
    return { verdicts, deleted: dryRun ? [] : await this.#apply(judgement), isDryRun: dryRun };
  }

  /** Whether a save can have pushed anything out. */
  isConcernedBy({ type, userId }: Checkpoint): boolean {
    const { types, maxCheckpoints, maxCheckpointsPerUser } = this.#policy;
    const rule = types?.[type];
    if (rule?.keepLast !== undefined || rule?.maxAgeMs !== undefined || maxCheckpoints !== undefined) return true;
    return maxCheckpointsPerUser !== undefined && userId !== undefined;
  }

  /** After a save only what this save can have pushed out is judged, so its cost does not follow the history. */
  async afterSave({ header }: Checkpoint): Promise<readonly CheckpointId[]> {
    const deleted = await this.#applyRule(header);
    if (header.type === GROUP_TYPE) deleted.push(...(await this.releaseGroups(deleted)));
    const { maxCheckpoints, maxCheckpointsPerUser } = this.#policy;
    if (maxCheckpoints !== undefined) deleted.push(...(await this.#dropBeyond({}, maxCheckpoints)));
    if (maxCheckpointsPerUser !== undefined && header.userId !== undefined) {
      deleted.push(...(await this.#dropBeyond({ userId: header.userId }, maxCheckpointsPerUser)));
    }
    return deleted;
  }

  /** Applies the rule of a type to what its owner has of it. */
  async #applyRule(header: CheckpointHeader): Promise<CheckpointId[]> {
    const rule = this.#policy.types?.[header.type];
    if (rule?.keepLast === undefined && rule?.maxAgeMs === undefined) return [];
    const peers = await readHeaders(this.#engine, { type: header.type, ...ownerOf(header) });
    const verdicts = await judge({
      checkpoints: peers,
      policy: { types: { [header.type]: rule } },
      ...UNKNOWN,
      nowMs: this.#engine.ports.now(),
    });
    return this.#deleteUnneeded(peers, verdicts);
  }

  /** Drops the oldest above a limit. If that were all protected, the limit is judged as `prune` does. */
  async #dropBeyond(filter: { readonly userId?: string }, limit: number): Promise<CheckpointId[]> {
    const rows = await this.#engine.storage.listCheckpoints({
      ...filter,
      order: 'newest',
      offset: limit,
      limit: PAGE,
    });
    const reason = `more than ${limit} checkpoints`;
    const sparedFromMs = this.#engine.cutsSinceMs;
    const isNeeded = ({ type, timestampMs }: CheckpointHeader) =>
      this.#policy.types?.[type]?.untilCompleted === true || type === GROUP_TYPE || timestampMs >= sparedFromMs;
    const { checkpoints } = await parseRows(rows);
    const doomed = checkpoints.map(({ header }) => header).filter((header) => !isNeeded(header));
    const deleted = await this.#deleteUnneeded(
      doomed,
      doomed.map(({ id }) => ({ id, keep: false, reason })),
    );
    if (deleted.length === rows.length) return deleted;
    return [...deleted, ...(await this.#apply(await this.#judgeLimit(filter, limit)))];
  }

  /** Judges one limit alone, among the checkpoints that it counts; where they are part of groups, among all. */
  async #judgeLimit(filter: { readonly userId?: string }, limit: number): Promise<Judgement> {
    const headers = await readHeaders(this.#engine, filter);
    const isAll = filter.userId === undefined;
    const review = await this.#reviewPins({ dryRun: false }, headers);
    const sessionIds = isAll ? undefined : [...new Set(headers.map(({ sessionId }) => sessionId))];
    const some = await readProtections(this.#engine, sessionIds, review.stale);
    const isWide = !isAll && some.groups.size > 0;
    const judged = isWide ? await readHeaders(this.#engine, {}) : headers;
    const held = isWide ? await readProtections(this.#engine, undefined, review.stale) : some;
    const verdicts = await judge({
      checkpoints: judged,
      policy: {
        types: untilCompleted(this.#policy.types),
        ...(isAll ? { maxCheckpoints: limit } : { maxCheckpointsPerUser: limit }),
      },
      ...held,
      sparedFromMs: review.cutsSinceMs,
      slack: Math.floor(limit * SLACK),
      nowMs: this.#engine.ports.now(),
    });
    return { headers: judged, verdicts, refs: held.refs };
  }

  /** Which pins protect nothing any more, and since when groups are being saved, here or elsewhere. */
  async #reviewPins(place: Omit<PinCase, 'live'>, headers: readonly CheckpointHeader[]): Promise<PinReview> {
    const sinceMs = this.#engine.cutsSinceMs;
    const live = new Set(headers.flatMap(({ id, type }) => (type === GROUP_TYPE ? [id] : [])));
    const review = await releaseStalePins(this.#engine, { ...place, live });
    return { ...review, cutsSinceMs: Math.min(sinceMs, review.cutsSinceMs) };
  }

  /** Deletes what is not kept, except what something in its session needs that was not judged, or that the storage guards. */
  async #deleteUnneeded(judged: readonly CheckpointHeader[], verdicts: readonly Verdict[]): Promise<CheckpointId[]> {
    const doomed = new Set(verdicts.flatMap(({ id, keep }) => (keep ? [] : [id])));
    const sessions = new Map<SessionId, CheckpointId[]>();
    for (const { id, sessionId } of judged.filter((header) => doomed.has(header.id))) {
      const known = sessions.get(sessionId);
      if (known === undefined) sessions.set(sessionId, [id]);
      else known.push(id);
    }
    const needed = new Set<CheckpointId>();
    for (const [sessionId, all] of sessions)
      for (const id of await orIfDamaged(this.#needs.find(sessionId, doomed), all)) needed.add(id);
    return this.#delete(verdicts.filter(({ id }) => !needed.has(id)));
  }

  async #judge(policy: RetentionPolicy, sessionId: SessionId | undefined, dryRun: boolean): Promise<Judgement> {
    const sessions = sessionId === undefined ? undefined : [sessionId];
    // Both before and after: a head that moved meanwhile may be needed by one that is not among those read.
    const before = await readProtections(this.#engine, sessions);
    const headers = await readHeaders(this.#engine, sessionId === undefined ? {} : { sessionId });
    const review = await this.#reviewPins({ sessionId, dryRun }, headers);
    const after = await readProtections(this.#engine, sessions, review.stale);
    const verdicts = await judge({
      checkpoints: headers,
      peers: sessionId === undefined ? [] : await this.#readPeers(sessionId, headers, policy),
      policy,
      ...after,
      protections: new Map([...before.protections, ...after.protections]),
      heads: new Map([...before.heads, ...after.heads]),
      current: new Set([...before.current, ...after.current]),
      held: new Set([...before.held, ...after.held]),
      sparedFromMs: review.cutsSinceMs,
      nowMs: this.#engine.ports.now(),
    });
    return { headers, verdicts, refs: withoutPins(before.refs, review.stale) };
  }

  /** What agents of a session saved elsewhere of the types whose last ones are kept: that counts, too. */
  async #readPeers(
    sessionId: SessionId,
    headers: readonly CheckpointHeader[],
    { types = {} }: RetentionPolicy,
  ): Promise<CheckpointHeader[]> {
    const counted = headers.filter(({ type, agentId }) => agentId !== undefined && types[type]?.keepLast !== undefined);
    const owners = new Map(counted.map(({ type, agentId }) => [JSON.stringify([type, agentId]), { type, agentId }]));
    const peers: CheckpointHeader[] = [];
    for (const { type, agentId = '' } of owners.values())
      peers.push(...(await readHeaders(this.#engine, { type, agentId })));
    return peers.filter((peer) => peer.sessionId !== sessionId);
  }

  /** Deletes group checkpoints first, so that nothing pins their members any more. */
  async #apply({ headers, verdicts, refs }: Judgement): Promise<CheckpointId[]> {
    const doomed = new Map(verdicts.flatMap((verdict) => (verdict.keep ? [] : [[verdict.id, verdict]])));
    const groups = headers.filter(({ id, type }) => type === GROUP_TYPE && doomed.has(id));
    const sessions = new Set(groups.map(({ sessionId }) => sessionId));
    const isFirst = ({ sessionId }: CheckpointHeader): boolean => sessions.has(sessionId);
    const deleted = new Set(await this.#end({ headers: headers.filter(isFirst), verdicts, refs }));
    const left = groups.filter(({ id }) => !deleted.has(id));
    for (const id of await this.#deleteUnneeded(left, pick(left, doomed))) deleted.add(id);
    const gone = new Set(groups.flatMap(({ id }) => (deleted.has(id) ? [id] : [])));
    const pins = await unpinGroups(this.#engine, gone);
    const others = headers.filter((header) => !isFirst(header));
    const unpinned = withoutPins(refs, new Set(pins.map(({ name }) => name)));
    for (const id of await this.#end({ headers: others, verdicts, refs: unpinned })) deleted.add(id);
    const rest = headers.filter(({ id }) => doomed.has(id) && !deleted.has(id));
    for (const id of await this.#deleteUnneeded(rest, pick(rest, doomed))) deleted.add(id);
    const judged = new Set(headers.map(({ id }) => id));
    const members = pins.map(({ target }) => target as CheckpointId).filter((id) => !judged.has(id));
    return [...deleted, ...(await this.#deleteMembers(members))];
  }

  /** Deletes a checkpoint, of a group also the members, unless a branch, tag or pin protects it; returns whether it did. */
  async delete(checkpoint: Checkpoint, reason = 'deleted by hand'): Promise<boolean> {
    await checkUnneeded(this.#engine.storage, checkpoint);
    const doomed = { id: checkpoint.id, reason: redactText(reason, this.#engine.codec) };
    const deleted = await deleteCheckpoints(this.#engine, [doomed]);
    if (checkpoint.type === GROUP_TYPE) await this.releaseGroups(deleted);
    return deleted.length > 0;
  }

  /** Removes the pins of group checkpoints that were deleted, and deletes what nothing else keeps; returns that. */
  async releaseGroups(deleted: readonly CheckpointId[]): Promise<readonly CheckpointId[]> {
    const pins = await unpinGroups(this.#engine, new Set(deleted));
    return this.#deleteMembers(pins.map(({ target }) => target as CheckpointId));
  }

  /** Members of groups that are gone. Those that a rule is about stay, as far as that keeps them. */
  async #deleteMembers(ids: readonly CheckpointId[]): Promise<CheckpointId[]> {
    const members: CheckpointHeader[] = [];
    for (const id of new Set(ids)) {
      const row = await this.#engine.storage.readCheckpoint(id);
      if (row !== undefined && !row.isDeleted) members.push(parseRow(row).header);
    }
    const isRuled = ({ type }: CheckpointHeader) => this.#policy.types?.[type] !== undefined;
    const reason = 'its group was deleted';
    const doomed = hasKeepRule(this.#policy) ? [] : members.filter((header) => !isRuled(header));
    const verdicts = doomed.map(({ id }) => ({ id, keep: false, reason }));
    const deleted = await this.#deleteUnneeded(doomed, verdicts);
    for (const header of members.filter(isRuled)) deleted.push(...(await this.#applyRule(header)));
    return deleted;
  }

  /** Ends sessions of which nothing is kept, and branches whose heads go; returns what went with whole sessions. */
  async #end({ headers, verdicts, refs }: Judgement): Promise<CheckpointId[]> {
    const doomed = new Map(verdicts.flatMap((verdict) => (verdict.keep ? [] : [[verdict.id, verdict]])));
    const kept = new Set(headers.flatMap(({ id, sessionId }) => (doomed.has(id) ? [] : [sessionId])));
    const deleted: CheckpointId[] = [];
    for (const sessionId of new Set(headers.map((header) => header.sessionId))) {
      const names = refs.get(sessionId) ?? [];
      const own = kept.has(sessionId) ? [] : await orIfDamaged(this.#endSession(sessionId, names, doomed), []);
      deleted.push(...own);
      if (own.length === 0) await orIfDamaged(this.#endBranches(sessionId, names, doomed), undefined);
    }
    return deleted;
  }

  /** Deletes a whole session, unless there is more in it than was judged, or somebody wrote to it since. */
  async #endSession(
    sessionId: SessionId,
    refs: readonly Ref[],
    doomed: ReadonlyMap<CheckpointId, Verdict>,
  ): Promise<CheckpointId[]> {
    const { storage, events } = this.#engine;
    const ids = (await readHeaders(this.#engine, { sessionId })).map(({ id }) => id);
    if (!ids.every((id) => doomed.has(id))) return [];
    if (!(await this.#engine.endSession(sessionId, () => storage.deleteSession(sessionId, { ifRefs: refs }))))
      return [];
    for (const id of ids) await events.emit('checkpoint_deleted', id, doomed.get(id)?.reason ?? '');
    return ids;
  }

  /** Removes the branches whose heads go. One that moved since is kept. */
  async #endBranches(
    sessionId: SessionId,
    refs: readonly Ref[],
    doomed: ReadonlyMap<CheckpointId, Verdict>,
  ): Promise<void> {
    for (const { kind, name, target } of refs) {
      if (kind !== 'branch' || !doomed.has(target as CheckpointId)) continue;
      try {
        await this.#engine.storage.commit({ sessionId, refs: [{ kind, name, expect: target, target: null }] });
      } catch (error) {
        if (!hasErrorCode(error, 'CONFLICT')) throw error;
      }
    }
  }

  async #delete(verdicts: readonly Verdict[]): Promise<CheckpointId[]> {
    // Newest first: where this is cut short, nothing is left without an ancestor that it needs.
    const doomed = verdicts.filter((verdict) => !verdict.keep).toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const deleted: CheckpointId[] = [];
    const breather = new Breather();
    for (let at = 0; at < doomed.length; at += DELETE_BATCH) {
      deleted.push(...(await deleteCheckpoints(this.#engine, doomed.slice(at, at + DELETE_BATCH))));
      await breather.breathe();
    }
    return deleted;
  }
}

/** Refs without pins that were removed since. */
function withoutPins(refs: Protections['refs'], names: ReadonlySet<string>): Protections['refs'] {
  if (names.size === 0) return refs;
  const isLeft = ({ kind, name }: Ref): boolean => kind !== 'pin' || !names.has(name);
  return new Map([...refs].map(([sessionId, known]) => [sessionId, known.filter(isLeft)]));
}

function pick(headers: readonly CheckpointHeader[], verdicts: ReadonlyMap<CheckpointId, Verdict>): Verdict[] {
  return headers.flatMap(({ id }) => verdicts.get(id) ?? []);
}

/** The rules that protect what an operation needs. */
function untilCompleted(types: RetentionPolicy['types'] = {}): { readonly [type: string]: TypeRetention } {
  return Object.fromEntries(Object.entries(types).filter(([, rule]) => rule.untilCompleted === true));
}

function ownerOf({ agentId, sessionId }: CheckpointHeader): { agentId: string } | { sessionId: string } {
  return agentId === undefined ? { sessionId } : { agentId };
}
