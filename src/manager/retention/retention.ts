import { formatCount } from '../../core/format-count.ts';
import { groupBy } from '../../core/group-by.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import { GroupTies, MAX_REASONS } from './retention-groups.ts';
import {
  DAY_MS,
  findKept,
  hasKeepRule,
  type Kept,
  type RetentionPolicy,
  type TypeRetention,
} from './retention-policy.ts';
import { findNeeded } from './retention-records.ts';

export {
  DEFAULT_RETENTION,
  type RetentionPolicy,
  type TypeRetention,
} from './retention-policy.ts';

/** What retention says about one checkpoint, and why, in words for a person. */
export type RetentionVerdict = { readonly id: CheckpointId; readonly keep: boolean; readonly reason: string };

/** Everything a judgement depends on. `checkpoints` are all the live ones in question: ranks and counts are taken among them. */
export type RetentionCase = {
  readonly checkpoints: readonly CheckpointHeader[];
  /** Others, without a verdict: they count where the last ones of an agent are kept. */
  readonly peers?: readonly CheckpointHeader[];
  readonly policy: RetentionPolicy;
  /** Why a checkpoint must stay: `tagged v1`, `pinned`, `leased by worker-1`, ... Its session stays with it. */
  readonly protections: ReadonlyMap<CheckpointId, readonly string[]>;
  /** Why a checkpoint stays unless its branch or session goes: `head of branch main`. */
  readonly heads?: ReadonlyMap<CheckpointId, readonly string[]>;
  /** Heads that go only with their whole session: those of branches that are current, or open here. */
  readonly current?: ReadonlySet<CheckpointId>;
  /** Heads that hold a person's answer, and those of the branches that asked: while one of these stays, age does not end the answer. */
  readonly answers?: ReadonlyMap<CheckpointId, readonly CheckpointId[]>;
  /** Heads that somebody waits for, and why: age ends neither them nor their sessions. */
  readonly waiting?: ReadonlyMap<CheckpointId, string>;
  /** Sessions that must stay for the sake of checkpoints that are not among these. */
  readonly held?: ReadonlySet<SessionId>;
  /** The members of group checkpoints. They stay as long as their group checkpoint, and go with it. */
  readonly groups?: ReadonlyMap<CheckpointId, readonly CheckpointId[]>;
  /** What was saved since then stays: it may be for a group that is being saved. */
  readonly sparedFromMs?: number;
  /** How many more go once a limit takes whole sessions, so that not every save has to look for one. Default 0. */
  readonly slack?: number;
  /** Pre-operation checkpoints whose operation is over. */
  readonly completed?: ReadonlySet<CheckpointId>;
  /** Recovery checkpoints that a person cleared. */
  readonly cleared?: ReadonlySet<CheckpointId>;
  readonly nowMs: number;
};

/** Decides what to keep: one verdict per checkpoint, in the order given. Deletes nothing itself. */
export async function judge(input: RetentionCase): Promise<RetentionVerdict[]> {
  const breather = new Breather();
  const newestFirst = sortNewestFirst(input.checkpoints);
  const verdicts = new Verdicts(input, newestFirst);
  await verdicts.begin(breather);
  const { maxCheckpoints, maxCheckpointsPerUser, maxAgeDays } = input.policy;
  if (maxAgeDays !== undefined) {
    await breather.each(newestFirst, (header) => verdicts.dropIfOlder(header, maxAgeDays));
    await breather.each(verdicts.sessions, (session) => verdicts.endIdle(session, maxAgeDays));
  }
  if (maxCheckpointsPerUser !== undefined) {
    for (const [userId, group] of groupBy(newestFirst, (header) => header.userId)) {
      if (userId === undefined) continue;
      await verdicts.dropBeyond({ max: maxCheckpointsPerUser, whose: `of user ${userId}` }, group, breather);
    }
  }
  if (maxCheckpoints !== undefined)
    await verdicts.dropBeyond({ max: maxCheckpoints, whose: 'in all' }, newestFirst, breather);
  await verdicts.keepNeeded(breather);
  const all: RetentionVerdict[] = [];
  await breather.each(input.checkpoints, ({ id }) => all.push(verdicts.of(id)));
  return all;
}

/** The verdicts so far; a limit may turn a keep into a drop, unless the checkpoint is protected. */
class Verdicts {
  readonly #input: RetentionCase;
  readonly #newestFirst: readonly CheckpointHeader[];
  readonly #bySession: ReadonlyMap<SessionId, readonly CheckpointHeader[]>;
  readonly #groups: GroupTies;
  /** What is said of each by itself; its groups may keep it all the same. */
  readonly #verdicts = new Map<CheckpointId, RetentionVerdict>();
  readonly #protected = new Set<CheckpointId>();
  /** Sessions that hold something which must stay. */
  readonly #held: Set<SessionId>;

  constructor(input: RetentionCase, newestFirst: readonly CheckpointHeader[]) {
    this.#input = input;
    this.#newestFirst = newestFirst;
    this.#bySession = groupBy(newestFirst, ({ sessionId }) => sessionId);
    this.#held = new Set(input.held);
    this.#groups = new GroupTies(newestFirst, input.groups);
  }

  /** What protections and the rules of types say; limits come after that. */
  async begin(breather: Breather): Promise<void> {
    const { policy, nowMs, peers = [] } = this.#input;
    const newestFirst = this.#newestFirst;
    const ranked = peers.length === 0 ? newestFirst : sortNewestFirst([...newestFirst, ...peers]);
    const ranks = await rankInType(ranked, breather);
    const general = newestFirst.filter(({ type }) => ruleOf(policy, type) === undefined);
    const kept = await findKept(general, policy, nowMs);
    await breather.each(newestFirst, (header) => {
      this.#verdicts.set(header.id, this.#protect(header) ?? this.#judgeByRule(header, ranks.get(header.id), kept));
    });
    await this.#protectNeeded(breather);
  }

  /** Those with group checkpoints first: whether they end decides whether their members' sessions may. */
  get sessions(): Iterable<readonly [SessionId, readonly CheckpointHeader[]]> {
    const hasGroup = ([, headers]: readonly [SessionId, readonly CheckpointHeader[]]) =>
      headers.some(({ id }) => this.#groups.isGroup(id));
    const all = [...this.#bySession];
    return this.#groups.isEmpty ? all : [...all.filter(hasGroup), ...all.filter((session) => !hasGroup(session))];
  }

  of(id: CheckpointId): RetentionVerdict {
    const own = this.#verdicts.get(id) as RetentionVerdict;
    const groups = this.#keptGroupsOf(id);
    if (groups.length === 0) return own;
    const reasons = groups.slice(0, MAX_REASONS).map((groupId) => `part of group ${groupId}`);
    return { id, keep: true, reason: [...(this.#protected.has(id) ? [own.reason] : []), ...reasons].join('; ') };
  }

  #keptGroupsOf(id: CheckpointId): CheckpointId[] {
    return this.#groups.of(id).filter((groupId) => this.#verdicts.get(groupId)?.keep === true);
  }

  /** Whether something in it must stay: by itself, or for a group checkpoint in another session. */
  #isHeld(sessionId: SessionId): boolean {
    return this.#held.has(sessionId) || this.#groups.holding(sessionId).some((id) => this.#verdicts.get(id)?.keep);
  }

  #protect(header: CheckpointHeader): RetentionVerdict | undefined {
    const { id } = header;
    const { heads, waiting } = this.#input;
    const reasons = [...(heads?.get(id) ?? []), ...[waiting?.get(id) ?? []].flat(), ...this.#hold(header)];
    if (reasons.length === 0) return undefined;
    this.#protected.add(id);
    return { id, keep: true, reason: reasons.join('; ') };
  }

  /** Why a checkpoint must stay, and its session with it. */
  #hold({ id, sessionId, type, timestampMs }: CheckpointHeader): string[] {
    const { protections, policy, completed, sparedFromMs = Infinity } = this.#input;
    const held = [...(protections.get(id) ?? []), ...this.#groups.outside(id).map((group) => `part of group ${group}`)];
    if (ruleOf(policy, type)?.untilCompleted === true && !completed?.has(id)) held.push('operation still running');
    if (timestampMs >= sparedFromMs) held.push('a group is being saved');
    if (held.length > 0) this.#held.add(sessionId);
    return held;
  }

  /** What a protected checkpoint needs is as protected, so that limits take something else. */
  async #protectNeeded(breather: Breather): Promise<void> {
    const isProtected = (id: CheckpointId): boolean =>
      this.#protected.has(id) || this.#keptGroupsOf(id).some((group) => this.#protected.has(group));
    for (const [id, keeper] of await findNeeded(this.#newestFirst, isProtected, breather)) {
      if (this.#protected.has(id)) continue;
      this.#keepFor(id, keeper);
      this.#protected.add(id);
    }
  }

  /** Whatever is kept keeps what it needs, also beyond a limit. */
  async keepNeeded(breather: Breather): Promise<void> {
    const isKept = (id: CheckpointId): boolean => this.of(id).keep;
    for (const [id, keeper] of await findNeeded(this.#newestFirst, isKept, breather)) this.#keepFor(id, keeper);
  }

  #keepFor(id: CheckpointId, keeper: CheckpointId): void {
    const before = this.#verdicts.get(id);
    if (before === undefined || before.keep) return; // deleted already, or kept for a reason of its own
    this.#verdicts.set(id, { id, keep: true, reason: `needed to read checkpoint ${keeper}` });
  }

  #judgeByRule(header: CheckpointHeader, rank: number | undefined, kept: Kept): RetentionVerdict {
    const { id, type } = header;
    const rule = ruleOf(this.#input.policy, type);
    if (rule !== undefined) {
      const ended = this.#findEnd(header, rule, rank ?? 1);
      return ended === undefined
        ? { id, keep: true, reason: `${type}: within its rule` }
        : { id, keep: false, reason: `${type}: ${ended}` };
    }
    if (!hasKeepRule(this.#input.policy)) {
      if (this.#groups.of(id).length > 0) return { id, keep: false, reason: `${type}: its group is not kept` };
      return { id, keep: true, reason: `${type}: no rule drops it` };
    }
    const reasons = kept.get(id) ?? [];
    return reasons.length > 0
      ? { id, keep: true, reason: reasons.join('; ') }
      : { id, keep: false, reason: `${type}: no keep rule asks for it` };
  }

  /** Why a type's own rule ends this checkpoint, or undefined. */
  #findEnd(header: CheckpointHeader, rule: TypeRetention, rank: number): string | undefined {
    const { cleared, nowMs } = this.#input;
    // One whose operation still runs is protected and never gets here.
    if (rule.untilCompleted === true) return 'its operation completed';
    if (rule.untilCleared === true && cleared?.has(header.id)) return 'cleared';
    const { maxAgeMs = Infinity, keepLast = Infinity } = rule;
    if (nowMs - header.timestampMs > maxAgeMs) return `older than ${formatDuration(maxAgeMs)}`;
    return rank > keepLast
      ? `${formatOrdinal(rank)} newest of ${formatOwner(header)}, ${keepLast} are kept`
      : undefined;
  }

  dropIfOlder(header: CheckpointHeader, maxAgeDays: number): void {
    if (this.#isOlder(header, maxAgeDays)) this.#drop(header.id, `older than ${formatCount(maxAgeDays, 'day')}`);
  }

  #isOlder({ timestampMs }: CheckpointHeader, days: number): boolean {
    return this.#input.nowMs - timestampMs > days * DAY_MS;
  }

  /** Ends a session that was not saved to for so long; in another the branches that were not, but for the current one. */
  endIdle([sessionId, headers]: readonly [SessionId, readonly CheckpointHeader[]], maxAgeDays: number): void {
    const since = `was not saved to for ${formatCount(maxAgeDays, 'day')}`;
    const old = headers.filter((header) => this.#isOlder(header, maxAgeDays));
    const { waiting, answers } = this.#input;
    const isWaiting = ({ id }: CheckpointHeader): boolean => waiting?.has(id) === true;
    const isOver = old.length === headers.length && !old.some(isWaiting) && !this.#isHeld(sessionId);
    if (isOver) return void this.#end(old, `its session ${since}`);
    const idle = old.filter((header) => this.#isForgettable(header) && !isWaiting(header));
    const going = new Set(idle.map(({ id }) => id));
    const isLeft = ({ id }: CheckpointHeader): boolean => answers?.get(id)?.every((one) => going.has(one)) ?? true;
    this.#end(idle.filter(isLeft), `its branch ${since}`);
  }

  readonly #isForgettable = ({ id }: CheckpointHeader): boolean => {
    const { heads, current, protections } = this.#input;
    return heads?.has(id) === true && current?.has(id) !== true && !protections.has(id);
  };

  /**
   * Drops the oldest until no more than `max` are left, a group checkpoint together with its members. Where only heads are left, the
   * sessions idle longest go whole.
   */
  async dropBeyond(limit: CountLimit, newestFirst: readonly CheckpointHeader[], breather: Breather): Promise<void> {
    const counted = new Set(newestFirst.map(({ id }) => id));
    const beyond = `beyond the ${limit.max} kept ${limit.whose}`;
    let excess = this.#kept(newestFirst).length - limit.max;
    if (excess <= 0) return;
    for (const id of this.#groups.withGroups(counted)) {
      if (excess <= 0) return;
      if (this.#keptGroupsOf(id).length === 0) excess -= this.#dropWithMembers(id, `${beyond}, oldest first`, counted);
      if (breather.isDue) await breather.breathe();
    }
    if (excess > 0) this.#endIdlest(this.#kept(newestFirst), excess, { beyond, counted });
  }

  /** The session saved to last stays, with the group it was saved for: of that one, other branches than the current one go, oldest first. */
  #endIdlest(newestFirst: readonly CheckpointHeader[], excess: number, { beyond, counted }: Ending): void {
    const [latest, ...others] = groupBy(newestFirst, ({ sessionId }) => sessionId);
    const spared = new Set(
      this.#keptGroupsOf(newestFirst[0]?.id as CheckpointId).map((id) => this.#groups.sessionOf(id)),
    );
    const left = new Map(others);
    let wanted = excess + (this.#input.slack ?? 0);
    const end = (sessionId: SessionId, headers: readonly CheckpointHeader[]): void => {
      wanted -= this.#end(headers, `${beyond}: its session was idle longest`, counted);
      for (const { id: groupId } of headers)
        for (const member of this.#groups.sessionsOfMembers(groupId)) {
          const kept = this.#kept(left.get(member) ?? []);
          const isIdle = kept[0] !== undefined && this.#groups.of(kept[0].id).includes(groupId);
          if (isIdle && member !== sessionId && this.#isFree(member, kept)) end(member, kept);
        }
    };
    for (const [sessionId, headers] of others.toReversed()) {
      if (wanted <= 0) return;
      const kept = this.#kept(headers);
      if (kept.length > 0 && !spared.has(sessionId) && this.#isFree(sessionId, kept)) end(sessionId, kept);
    }
    const isOpen = ({ id }: CheckpointHeader) => this.#input.answers?.get(id)?.some((asking) => asking < id) === true;
    const branches = latest?.[1].slice(1).filter((header) => this.#isForgettable(header) && !isOpen(header)) ?? [];
    const surplus = branches.slice(Math.max(0, branches.length - Math.max(0, wanted)));
    this.#end(surplus, `${beyond}: its branch was idle longest`, counted);
  }

  /** Whether a session may end: nothing holds it, and all that is kept in it is counted. */
  #isFree(sessionId: SessionId, headers: readonly CheckpointHeader[]): boolean {
    return !this.#isHeld(sessionId) && this.#kept(this.#bySession.get(sessionId) ?? []).length <= headers.length;
  }

  #kept(headers: readonly CheckpointHeader[]): CheckpointHeader[] {
    return headers.filter(({ id }) => this.of(id).keep);
  }

  /** Drops checkpoints whose branches end; returns how many of those counted are gone. */
  #end(headers: readonly CheckpointHeader[], reason: string, counted: ReadonlySet<CheckpointId> = NONE): number {
    let gone = 0;
    for (const { id } of headers) {
      this.#protected.delete(id);
      gone += this.#dropWithMembers(id, reason, counted);
    }
    return gone;
  }

  /** Drops one, and of a group checkpoint the members that nothing else keeps; returns how many of those counted are gone. */
  #dropWithMembers(id: CheckpointId, reason: string, counted: ReadonlySet<CheckpointId>): number {
    const both = [id, ...this.#groups.membersOf(id)].filter((one) => counted.has(one) && this.of(one).keep);
    this.#drop(id, reason);
    return both.filter((one) => !this.of(one).keep).length;
  }

  #drop(id: CheckpointId, reason: string): void {
    const own = this.#verdicts.get(id);
    if (!this.#protected.has(id) && own?.keep === true) this.#verdicts.set(id, { id, keep: false, reason });
  }
}

type CountLimit = { readonly max: number; readonly whose: string };

/** Why sessions end, and which checkpoints count. */
type Ending = { readonly beyond: string; readonly counted: ReadonlySet<CheckpointId> };

const NONE: ReadonlySet<CheckpointId> = new Set();

function sortNewestFirst(headers: readonly CheckpointHeader[]): CheckpointHeader[] {
  return headers.toSorted((a, b) => (a.id < b.id ? 1 : -1));
}

function ruleOf({ types }: RetentionPolicy, type: string): TypeRetention | undefined {
  return types !== undefined && Object.hasOwn(types, type) ? types[type] : undefined;
}

/** The place of each checkpoint among those of its type and owner, 1 being the newest. */
async function rankInType(
  newestFirst: readonly CheckpointHeader[],
  breather: Breather,
): Promise<Map<CheckpointId, number>> {
  const ranks = new Map<CheckpointId, number>();
  const counts = new Map<string, number>();
  await breather.each(newestFirst, (header) => {
    const owner = ownerOf(header);
    const rank = (counts.get(owner) ?? 0) + 1;
    counts.set(owner, rank);
    ranks.set(header.id, rank);
  });
  return ranks;
}

/** As JSON, so that no two owners share a name. Two users who call their agents the same have two agents. */
function ownerOf({ type, agentId, userId, sessionId }: CheckpointHeader): string {
  return JSON.stringify(agentId === undefined ? [type, sessionId] : [type, agentId, userId ?? null]);
}

function formatOwner({ agentId, sessionId }: CheckpointHeader): string {
  return agentId === undefined ? `session ${sessionId}` : `agent ${agentId}`;
}

function formatOrdinal(count: number): string {
  const isTeen = count % 100 >= 11 && count % 100 <= 13;
  const ending = isTeen ? undefined : ['th', 'st', 'nd', 'rd'][count % 10];
  return `${count}${ending ?? 'th'}`;
}

const UNITS = [
  ['day', DAY_MS],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const;

function formatDuration(durationMs: number): string {
  const unit = UNITS.find(([, unitMs]) => durationMs >= unitMs && durationMs % unitMs === 0);
  return unit === undefined ? `${durationMs} ms` : formatCount(durationMs / unit[1], unit[0]);
}
