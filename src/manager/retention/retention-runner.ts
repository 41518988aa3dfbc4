import { withoutUndefined } from '../../core/defined.ts';
import { addTo } from '../../core/group-by.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { CollectResult, Ref } from '../../storage/contract.ts';
import { tryCommit } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import { draftOf, dropAbandoned, findPending, settleReplacements } from '../engine/import-claim.ts';
import { parseRow, parseRows } from '../engine/records.ts';
import { GROUP_TYPE, redactText } from '../engine/save-options.ts';
import { releaseStalePins, unpinGroups } from '../group/group-pins.ts';
import { TombstoneFolder } from './folding.ts';
import { judge, type RetentionPolicy, type RetentionVerdict, type TypeRetention } from './retention.ts';
import { hasKeepRule, mergeRetention } from './retention-policy.ts';
import { findWaiting, type Protections, readProtections, withoutPins } from './retention-protections.ts';
import { RetentionQueue } from './retention-queue.ts';
import {
  checkUnneeded,
  type Doomed,
  deleteCheckpoints,
  orIfDamaged,
  readHeaders,
  SessionNeeds,
} from './retention-records.ts';

/** What retention did, or would do. */
export type PruneResult = {
  readonly verdicts: readonly RetentionVerdict[];
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

/** What is judged: everything, one session, or what a limit of one user counts. */
type Scope = { readonly sessionId?: SessionId | undefined; readonly userId?: string | undefined };

/** What was judged: all that was read, what of it is to go, and the refs of the sessions it is in. */
type Judgement = {
  readonly headers: readonly CheckpointHeader[];
  readonly verdicts: readonly RetentionVerdict[];
  readonly refs: Protections['refs'];
};

const PAGE = 500;
/** Once a limit takes whole sessions it takes a hundredth more, so that not every save has to judge them all. */
const SLACK = 0.01;

/** Applies a retention policy to a storage. Deleting leaves tombstones, except of whole sessions; chunks go with the next gc. */
export class RetentionRunner {
  readonly #engine: Engine;
  readonly #policy: RetentionPolicy;
  readonly #needs: SessionNeeds;
  readonly #folder: TombstoneFolder;

  constructor(engine: Engine, policy: RetentionPolicy) {
    this.#engine = engine;
    this.#policy = policy;
    this.#needs = new SessionNeeds(engine.storage);
    this.#folder = new TombstoneFolder(engine.storage);
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
    await settleReplacements(this.#engine);
    if (!dryRun) await dropAbandoned(this.#engine);
    const { maxCheckpoints: _all, maxCheckpointsPerUser: _perUser, ...ofSession } = this.#policy;
    const own = sessionId === undefined ? this.#policy : ofSession;
    const given = { types: this.#policy.types ?? {}, ...withoutUndefined(policy ?? own) };
    const judgement = await this.#judge({ sessionId }, given, { dryRun });
    const deleted = dryRun ? [] : await this.#apply(judgement);
    return { verdicts: judgement.verdicts, deleted, isDryRun: dryRun };
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
    if (maxCheckpoints !== undefined) deleted.push(...(await this.#dropBeyond({ maxCheckpoints }, {})));
    if (maxCheckpointsPerUser !== undefined && header.userId !== undefined)
      deleted.push(...(await this.#dropBeyond({ maxCheckpointsPerUser }, { userId: header.userId })));
    return deleted;
  }

  /** Applies the rule of a type to what its owner has of it. The storage never deletes what a branch, tag or pin points at. */
  async #applyRule({ type, agentId, sessionId }: CheckpointHeader): Promise<CheckpointId[]> {
    const rule = this.#policy.types?.[type];
    if (rule?.keepLast === undefined && rule?.maxAgeMs === undefined) return [];
    const peers = await readHeaders(this.#engine, { type, ...(agentId === undefined ? { sessionId } : { agentId }) });
    const policy = { types: { [type]: rule } };
    const nowMs = this.#engine.ports.now();
    const verdicts = await judge({ checkpoints: peers, policy, protections: new Map(), nowMs });
    return this.#delete(peers, await doomedBy(verdicts));
  }

  /** Drops the oldest above a limit. If that were all protected, the limit is judged as `prune` does. */
  async #dropBeyond(policy: RetentionPolicy, place: { readonly userId?: string }): Promise<CheckpointId[]> {
    const [limit] = Object.values(policy) as [number];
    const page = { ...place, order: 'newest', offset: limit, limit: PAGE } as const;
    const { storage } = this.#engine;
    const rows = await storage.listCheckpoints(page);
    if (rows.length === 0) return [];
    const isCounted = (await findPending(storage)).size === 0; // what is being brought in counts for nothing yet
    const reason = `more than ${limit} checkpoints`;
    const sparedFromMs = this.#engine.cutsSinceMs;
    const isNeeded = ({ type, timestampMs }: CheckpointHeader) =>
      this.#policy.types?.[type]?.untilCompleted === true || type === GROUP_TYPE || timestampMs >= sparedFromMs;
    const headers = isCounted ? (await parseRows(rows)).checkpoints.map(({ header }) => header) : [];
    const deleted = await this.#drop(
      headers.filter((header) => !isNeeded(header)),
      reason,
    );
    if (deleted.length === rows.length) return deleted;
    const judged = { types: untilCompleted(this.#policy.types), ...policy };
    const judgement = await this.#judge(place, judged, { slack: Math.floor(limit * SLACK) });
    return [...deleted, ...(await this.#apply(judgement))];
  }

  /** Judges what is in a scope. What a user's limit counts is judged among all, if it is part of groups. */
  async #judge(
    scope: Scope,
    policy: RetentionPolicy,
    { dryRun = false, slack = 0 }: { readonly dryRun?: boolean; readonly slack?: number },
  ): Promise<Judgement> {
    const { sessionId, userId } = scope;
    const sinceMs = this.#engine.cutsSinceMs;
    const headers = await readHeaders(this.#engine, withoutUndefined(scope));
    const live = new Set(headers.flatMap(({ id, type }) => (type === GROUP_TYPE ? [id] : [])));
    const review = await releaseStalePins(this.#engine, { sessionId, dryRun, live });
    // After the checkpoints: what became a head since is none of those that were read.
    const sessions = userId === undefined ? [sessionId] : new Set(headers.map((header) => header.sessionId));
    const held = await readProtections(this.#engine, sessions, review.stale);
    if (userId !== undefined && held.groups.size > 0) return this.#judge({}, policy, { dryRun, slack });
    const verdicts = await judge({
      checkpoints: headers,
      peers: sessionId === undefined ? [] : await this.#readPeers(sessionId, headers, policy),
      policy,
      ...held,
      ...(policy.maxAgeDays !== undefined && { waiting: await findWaiting(this.#engine, headers, held) }),
      sparedFromMs: Math.min(sinceMs, review.cutsSinceMs),
      slack,
      nowMs: this.#engine.ports.now(),
    });
    return { headers, verdicts, refs: held.refs };
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

  /** Deletes what is not kept. Sessions with group checkpoints come first, so that nothing pins their members any more. */
  async #apply({ headers, verdicts, refs }: Judgement): Promise<CheckpointId[]> {
    const doomed = await doomedBy(verdicts);
    const groups = headers.filter(({ id, type }) => type === GROUP_TYPE && doomed.has(id));
    const first = new Set(groups.map(({ sessionId }) => sessionId));
    const own = headers.filter(({ sessionId }) => first.has(sessionId));
    const others = headers.filter(({ sessionId }) => !first.has(sessionId));
    const deleted = await this.#end(own, doomed, refs);
    const gone = new Set(deleted);
    const pins = await unpinGroups(this.#engine, new Set(groups.flatMap(({ id }) => (gone.has(id) ? [id] : []))));
    deleted.push(...(await this.#end(others, doomed, withoutPins(refs, pins))));
    const judged = new Set(headers.map(({ id }) => id));
    const members = pins.map(({ target }) => target as CheckpointId).filter((id) => !judged.has(id));
    return [...deleted, ...(await this.#deleteMembers(members))];
  }

  /**
   * Ends sessions of which nothing is kept; in others the branches whose heads go, and deletes what is to go. One that cannot end now, because
   * somebody saves to it, keeps its branches: that save stands on them.
   */
  async #end(headers: readonly CheckpointHeader[], doomed: Doomed, refs: Protections['refs']): Promise<CheckpointId[]> {
    const isKept = new Map<SessionId, boolean>();
    const breather = new Breather();
    await breather.each(headers, ({ id, sessionId }) => {
      isKept.set(sessionId, isKept.get(sessionId) === true || !doomed.has(id));
    });
    const ended: CheckpointId[] = [];
    const isEnded = new Set<SessionId>();
    for (const [sessionId, keeps] of isKept) {
      await breather.breathe();
      const names = refs.get(sessionId) ?? [];
      const work = keeps ? this.#endBranches(sessionId, names, doomed) : this.#endSession(sessionId, names, doomed);
      const own = await orIfDamaged(work, []);
      ended.push(...own);
      if (own.length > 0) isEnded.add(sessionId);
    }
    const left = headers.filter(({ sessionId }) => !isEnded.has(sessionId));
    return [...ended, ...(await this.#delete(left, doomed))];
  }

  /** Deletes a whole session, unless there is more in it than was judged, or somebody wrote to it since. */
  async #endSession(sessionId: SessionId, refs: readonly Ref[], doomed: Doomed): Promise<CheckpointId[]> {
    const { storage, events, repository, ports } = this.#engine;
    const ids = (await readHeaders(this.#engine, { sessionId })).map(({ id }) => id);
    const end = () => storage.deleteSession(sessionId, { ifRefs: refs });
    if (!ids.every((id) => doomed.has(id)) || !(await this.#engine.endSession(sessionId, end))) return [];
    await storage.deleteSession(draftOf(sessionId)); // or the next opening would bring it back
    const head = ids.reduce((newest, id) => (id > newest ? id : newest), '');
    const reason = doomed.get(head as CheckpointId) ?? '';
    repository.noteEnded([sessionId, head], { atMs: ports.now(), reason });
    for (const id of ids) await events.emit('checkpoint_deleted', id, doomed.get(id) ?? '');
    return ids;
  }

  /** Removes the branches whose heads go, and no checkpoint yet. One that moved since is kept. */
  async #endBranches(sessionId: SessionId, refs: readonly Ref[], doomed: Doomed): Promise<[]> {
    for (const { kind, name, target } of refs) {
      if (kind !== 'branch' || !doomed.has(target as CheckpointId)) continue;
      await tryCommit(this.#engine.storage, { sessionId, refs: [{ kind, name, expect: target, target: null }] });
    }
    return [];
  }

  /** Deletes what is to go, except what something in its session needs that was not judged, or that the storage guards. */
  async #delete(judged: readonly CheckpointHeader[], doomed: Doomed): Promise<CheckpointId[]> {
    const sessions = new Map<SessionId, CheckpointId[]>();
    const breather = new Breather();
    await breather.each(judged, ({ id, sessionId }) => {
      if (doomed.has(id)) addTo(sessions, sessionId, id);
    });
    const unneeded = new Map<CheckpointId, string>();
    for (const [sessionId, ids] of sessions) {
      await breather.breathe();
      const needed = new Set(await orIfDamaged(this.#needs.find(sessionId, doomed), ids));
      for (const id of ids) if (!needed.has(id)) unneeded.set(id, doomed.get(id) ?? '');
    }
    const deleted = await deleteCheckpoints(this.#engine, unneeded);
    const gone = new Set(deleted);
    for (const [sessionId, ids] of sessions)
      await this.#folder.note(
        sessionId,
        ids.filter((id) => gone.has(id)),
      );
    return deleted;
  }

  /** Folds tombstones, removes what nothing needs any more, and gives the space back. */
  async collect(signal?: AbortSignal): Promise<CollectResult> {
    await this.#engine.settled();
    signal?.throwIfAborted();
    await this.#folder.foldAll(signal);
    return this.#engine.storage.collect(signal === undefined ? {} : { signal });
  }

  /** Deletes these for one reason, as far as `#delete` does. */
  #drop(headers: readonly CheckpointHeader[], reason: string): Promise<CheckpointId[]> {
    return this.#delete(headers, new Map(headers.map(({ id }) => [id, reason])));
  }

  /** Deletes a checkpoint, of a group also the members, unless a branch, tag or pin protects it; returns whether it did. */
  async delete(checkpoint: Checkpoint, reason = 'deleted by hand'): Promise<boolean> {
    await checkUnneeded(this.#engine.storage, checkpoint);
    const doomed = new Map([[checkpoint.id, redactText(reason, this.#engine.codec)]]);
    const deleted = await deleteCheckpoints(this.#engine, doomed);
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
    const free = hasKeepRule(this.#policy) ? [] : members.filter((header) => !isRuled(header));
    const deleted = await this.#drop(free, 'its group was deleted');
    for (const header of members.filter(isRuled)) deleted.push(...(await this.#applyRule(header)));
    return deleted;
  }
}

async function doomedBy(verdicts: readonly RetentionVerdict[]): Promise<Doomed> {
  const doomed = new Map<CheckpointId, string>();
  await new Breather().each(verdicts, ({ id, keep, reason }) => {
    if (!keep) doomed.set(id, reason);
  });
  return doomed;
}

/** The rules that protect what an operation needs. */
function untilCompleted(types: RetentionPolicy['types'] = {}): { readonly [type: string]: TypeRetention } {
  return Object.fromEntries(Object.entries(types).filter(([, rule]) => rule.untilCompleted === true));
}
