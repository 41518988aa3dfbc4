import type { CheckpointHeader } from '../core/checkpoint-header.ts';
import type { CheckpointId } from '../core/id.ts';
import { findKept, hasKeepRule, type Kept } from './retention-keep.ts';
import { findNeeded } from './retention-needs.ts';
import { DAY_MS, type RetentionPolicy, type TypeRetention } from './retention-policy.ts';

export {
  checkRetentionPolicy,
  DEFAULT_RETENTION,
  type RetentionPolicy,
  type TypeRetention,
} from './retention-policy.ts';

/** What retention says about one checkpoint, and why, in words for a person. */
export type Verdict = { readonly id: CheckpointId; readonly keep: boolean; readonly reason: string };

/** Everything a judgement depends on. `checkpoints` are all the live ones in question: ranks and counts are taken among them. */
export type RetentionCase = {
  readonly checkpoints: readonly CheckpointHeader[];
  readonly policy: RetentionPolicy;
  /** Why a checkpoint must stay: `head of branch main`, `tagged v1`, `pinned`, ... */
  readonly protections: ReadonlyMap<CheckpointId, readonly string[]>;
  /** Pre-operation checkpoints whose operation is over. */
  readonly completed?: ReadonlySet<CheckpointId>;
  /** Recovery checkpoints that a person cleared. */
  readonly cleared?: ReadonlySet<CheckpointId>;
  readonly nowMs: number;
};

/** Decides what to keep: one verdict per checkpoint, in the order given. Deletes nothing itself. */
export function judge(input: RetentionCase): Verdict[] {
  const newestFirst = input.checkpoints.toSorted((a, b) => (a.id < b.id ? 1 : -1));
  const verdicts = new Verdicts(input, newestFirst);
  const { maxCheckpoints, maxCheckpointsPerUser, maxAgeDays } = input.policy;
  if (maxAgeDays !== undefined) verdicts.dropOlderThan(maxAgeDays, input.nowMs);
  if (maxCheckpointsPerUser !== undefined) {
    for (const [userId, group] of groupBy(newestFirst, (header) => header.userId))
      if (userId !== undefined) verdicts.dropBeyond(maxCheckpointsPerUser, group, `of user ${userId}`);
  }
  if (maxCheckpoints !== undefined) verdicts.dropBeyond(maxCheckpoints, newestFirst, 'in all');
  verdicts.keepNeeded();
  return input.checkpoints.map(({ id }) => verdicts.of(id));
}

/** The verdicts so far; a limit may turn a keep into a drop, unless the checkpoint is protected. */
class Verdicts {
  readonly #input: RetentionCase;
  readonly #newestFirst: readonly CheckpointHeader[];
  readonly #verdicts = new Map<CheckpointId, Verdict>();
  readonly #protected = new Set<CheckpointId>();

  constructor(input: RetentionCase, newestFirst: readonly CheckpointHeader[]) {
    this.#input = input;
    this.#newestFirst = newestFirst;
    const ranks = rankInType(newestFirst);
    const general = newestFirst.filter(({ type }) => ruleOf(input.policy, type) === undefined);
    const kept = findKept(general, input.policy, input.nowMs);
    for (const header of newestFirst) {
      this.#verdicts.set(header.id, this.#protect(header) ?? this.#judgeByRule(header, ranks.get(header.id), kept));
    }
    this.#protectNeeded();
  }

  of(id: CheckpointId): Verdict {
    return this.#verdicts.get(id) as Verdict;
  }

  #protect({ id, type }: CheckpointHeader): Verdict | undefined {
    const reasons = [...(this.#input.protections.get(id) ?? [])];
    const isRunning = ruleOf(this.#input.policy, type)?.untilCompleted === true && !this.#input.completed?.has(id);
    if (isRunning) reasons.push('operation still running');
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

  dropOlderThan(maxAgeDays: number, nowMs: number): void {
    for (const { id, timestampMs } of this.#newestFirst)
      if (nowMs - timestampMs > maxAgeDays * DAY_MS) this.#drop(id, `older than ${formatCount(maxAgeDays, 'day')}`);
  }

  /** Drops the oldest of a group until no more than `max` are left, or only protected ones are. */
  dropBeyond(max: number, newestFirst: readonly CheckpointHeader[], whose: string): void {
    let excess = newestFirst.filter(({ id }) => this.of(id).keep).length - max;
    for (const { id } of newestFirst.toReversed()) {
      if (excess <= 0) return;
      if (this.#drop(id, `beyond the ${max} kept ${whose}, oldest first`)) excess--;
    }
  }

  #drop(id: CheckpointId, reason: string): boolean {
    if (this.#protected.has(id) || !this.of(id).keep) return false;
    this.#verdicts.set(id, { id, keep: false, reason });
    return true;
  }
}

function ruleOf({ types }: RetentionPolicy, type: string): TypeRetention | undefined {
  return types !== undefined && Object.hasOwn(types, type) ? types[type] : undefined;
}

/** The place of each checkpoint among those of its type and owner, 1 being the newest. */
function rankInType(newestFirst: readonly CheckpointHeader[]): Map<CheckpointId, number> {
  const ranks = new Map<CheckpointId, number>();
  for (const group of groupBy(newestFirst, ownerOf).values()) {
    for (const [at, { id }] of group.entries()) ranks.set(id, at + 1);
  }
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
