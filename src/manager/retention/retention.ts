import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import { findKept, hasKeepRule, type Kept } from './retention-keep.ts';
import { findNeeded } from './retention-needs.ts';
import { DAY_MS, type RetentionPolicy, type TypeRetention } from './retention-policy.ts';

export {
  DEFAULT_RETENTION,
  type RetentionPolicy,
  type TypeRetention,
} from './retention-policy.ts';

/** What retention says about one checkpoint, and why, in words for a person. */
export type Verdict = { readonly id: CheckpointId; readonly keep: boolean; readonly reason: string };

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
  /** Heads that go only with their whole session: those of current branches. */
  readonly current?: ReadonlySet<CheckpointId>;
  /** Sessions that must stay for the sake of checkpoints that are not among these. */
  readonly held?: ReadonlySet<SessionId>;
  /** How many more go once a limit takes whole sessions, so that not every save has to look for one. Default 0. */
  readonly slack?: number;
  /** Pre-operation checkpoints whose operation is over. */
  readonly completed?: ReadonlySet<CheckpointId>;
  /** Recovery checkpoints that a person cleared. */
  readonly cleared?: ReadonlySet<CheckpointId>;
  readonly nowMs: number;
};

/** Decides what to keep: one verdict per checkpoint, in the order given. Deletes nothing itself. */
export async function judge(input: RetentionCase): Promise<Verdict[]> {
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
    await breather.each(
      groupBy(newestFirst, (header) => header.userId),
      ([userId, group]) => {
        if (userId !== undefined) verdicts.dropBeyond(maxCheckpointsPerUser, group, `of user ${userId}`);
      },
    );
  }
  await breather.breathe();
  if (maxCheckpoints !== undefined) verdicts.dropBeyond(maxCheckpoints, newestFirst, 'in all');
  await breather.breathe();
  verdicts.keepNeeded();
  return input.checkpoints.map(({ id }) => verdicts.of(id));
}

/** The verdicts so far; a limit may turn a keep into a drop, unless the checkpoint is protected. */
class Verdicts {
  readonly #input: RetentionCase;
  readonly #newestFirst: readonly CheckpointHeader[];
  readonly #bySession: ReadonlyMap<SessionId, readonly CheckpointHeader[]>;
  readonly #verdicts = new Map<CheckpointId, Verdict>();
  readonly #protected = new Set<CheckpointId>();
  /** Sessions that hold something which must stay. */
  readonly #held: Set<SessionId>;

  constructor(input: RetentionCase, newestFirst: readonly CheckpointHeader[]) {
    this.#input = input;
    this.#newestFirst = newestFirst;
    this.#bySession = groupBy(newestFirst, ({ sessionId }) => sessionId);
    this.#held = new Set(input.held);
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
    this.#protectNeeded();
  }

  get sessions(): Iterable<readonly [SessionId, readonly CheckpointHeader[]]> {
    return this.#bySession;
  }

  of(id: CheckpointId): Verdict {
    return this.#verdicts.get(id) as Verdict;
  }

  #protect({ id, sessionId, type }: CheckpointHeader): Verdict | undefined {
    const { protections, heads, policy, completed } = this.#input;
    const held = [...(protections.get(id) ?? [])];
    if (ruleOf(policy, type)?.untilCompleted === true && !completed?.has(id)) held.push('operation still running');
    if (held.length > 0) this.#held.add(sessionId);
    const reasons = [...(heads?.get(id) ?? []), ...held];
    if (reasons.length === 0) return undefined;
    this.#protected.add(id);
    return { id, keep: true, reason: reasons.join('; ') };
  }

  /** What a protected checkpoint needs is as protected, so that limits take something else. */
  #protectNeeded(): void {
    for (const [id, keeper] of findNeeded(this.#newestFirst, (kept) => this.#protected.has(kept))) {
      if (this.#protected.has(id)) continue;
      this.#keepFor(id, keeper);
      this.#protected.add(id);
    }
  }

  /** Whatever is kept keeps what it needs, also beyond a limit. */
  keepNeeded(): void {
    for (const [id, keeper] of findNeeded(this.#newestFirst, (kept) => this.of(kept).keep)) this.#keepFor(id, keeper);
  }

  #keepFor(id: CheckpointId, keeper: CheckpointId): void {
    const before = this.#verdicts.get(id);
    if (before === undefined || before.keep) return; // deleted already, or kept for a reason of its own
    this.#verdicts.set(id, { id, keep: true, reason: `needed to read checkpoint ${keeper}` });
  }

  #judgeByRule(header: CheckpointHeader, rank: number | undefined, kept: Kept): Verdict {
    const { id, type } = header;
    const rule = ruleOf(this.#input.policy, type);
    if (rule !== undefined) {
      const ended = this.#findEnd(header, rule, rank ?? 1);
      return ended === undefined
        ? { id, keep: true, reason: `${type}: within its rule` }
        : { id, keep: false, reason: `${type}: ${ended}` };
    }
    if (!hasKeepRule(this.#input.policy)) return { id, keep: true, reason: `${type}: no rule drops it` };
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
    if (old.length === headers.length && !this.#held.has(sessionId)) this.#end(old, `its session ${since}`);
    else this.#end(old.filter(this.#isForgettable), `its branch ${since}`);
  }

  readonly #isForgettable = ({ id }: CheckpointHeader): boolean => {
    const { heads, current, protections } = this.#input;
    return heads?.has(id) === true && current?.has(id) !== true && !protections.has(id);
  };

  /** Drops the oldest of a group until no more than `max` are left. Where only heads are left, the sessions idle longest go whole. */
  dropBeyond(max: number, newestFirst: readonly CheckpointHeader[], whose: string): void {
    let excess = this.#kept(newestFirst).length - max;
    for (const { id } of newestFirst.toReversed()) {
      if (excess <= 0) return;
      if (this.#drop(id, `beyond the ${max} kept ${whose}, oldest first`)) excess--;
    }
    if (excess <= 0) return;
    this.#endIdlest(this.#kept(newestFirst), excess, `beyond the ${max} kept ${whose}`);
  }

  /** The session saved to last stays: of that one, other branches than the current one go, oldest first. */
  #endIdlest(newestFirst: readonly CheckpointHeader[], excess: number, beyond: string): void {
    const [latest, ...others] = groupBy(newestFirst, ({ sessionId }) => sessionId);
    let wanted = excess + (this.#input.slack ?? 0);
    for (const [sessionId, headers] of others.toReversed()) {
      if (wanted <= 0) return;
      if (this.#held.has(sessionId) || this.#kept(this.#bySession.get(sessionId) ?? []).length > headers.length)
        continue;
      this.#end(headers, `${beyond}: its session was idle longest`);
      wanted -= headers.length;
    }
    const branches = latest?.[1].slice(1).filter(this.#isForgettable) ?? [];
    this.#end(
      branches.slice(Math.max(0, branches.length - Math.max(0, wanted))),
      `${beyond}: its branch was idle longest`,
    );
  }

  #kept(headers: readonly CheckpointHeader[]): CheckpointHeader[] {
    return headers.filter(({ id }) => this.of(id).keep);
  }

  /** Drops checkpoints whose branches end. */
  #end(headers: readonly CheckpointHeader[], reason: string): void {
    for (const { id } of headers) {
      this.#protected.delete(id);
      this.#drop(id, reason);
    }
  }

  #drop(id: CheckpointId, reason: string): boolean {
    if (this.#protected.has(id) || !this.of(id).keep) return false;
    this.#verdicts.set(id, { id, keep: false, reason });
    return true;
  }
}

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

function groupBy<Key>(
  headers: readonly CheckpointHeader[],
  keyOf: (header: CheckpointHeader) => Key,
): Map<Key, CheckpointHeader[]> {
  const groups = new Map<Key, CheckpointHeader[]>();
  for (const header of headers) {
    const key = keyOf(header);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [header]);
    else group.push(header);
  }
  return groups;
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

function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
