import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions, flag, type OptionChecks, options, recordOf, wholeFrom } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

/** How long checkpoints of one type are kept. Each limit given may end it; a rule without limits keeps them all. */
export type TypeRetention = {
  /** The newest of this type, per agent of one user; per session where a checkpoint has no agent. */
  readonly keepLast?: number | undefined;
  readonly maxAgeMs?: number | undefined;
  /** Kept, whatever else is said, until its operation is marked completed; then dropped. */
  readonly untilCompleted?: boolean | undefined;
  /** Dropped as soon as it is marked cleared. */
  readonly untilCleared?: boolean | undefined;
};

/** What to keep. An absent rule does not apply; the empty policy keeps everything. */
export type RetentionPolicy = {
  readonly types?: { readonly [type: string]: TypeRetention } | undefined;
  /** No more than these stay: where only heads of branches are left, the sessions idle longest go whole. */
  readonly maxCheckpoints?: number | undefined;
  /** The same for each user. */
  readonly maxCheckpointsPerUser?: number | undefined;
  /** Older ones go, with branches and whole sessions that were not saved to since. */
  readonly maxAgeDays?: number | undefined;
  readonly keepLast?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  /** Everything that is not older than this. */
  readonly keepWithinMs?: number | undefined;
};

/** A limit of nothing would delete everything, which is never what an unset variable meant. */
const limit = wholeFrom(1);
const count = wholeFrom(0);

/** What a policy may hold. */
export const RETENTION_CHECKS: OptionChecks<RetentionPolicy> = {
  types: recordOf(
    options({
      keepLast: count,
      maxAgeMs: count,
      untilCompleted: flag,
      untilCleared: flag,
    } satisfies OptionChecks<TypeRetention>),
  ),
  maxCheckpoints: limit,
  maxCheckpointsPerUser: limit,
  maxAgeDays: limit,
  keepLast: count,
  keepHourly: count,
  keepDaily: count,
  keepWeekly: count,
  keepMonthly: count,
  keepWithinMs: count,
};

export const DAY_MS = 86_400_000;

/** What is kept when nothing else is said; types that are not named here are kept. */
export const DEFAULT_RETENTION: RetentionPolicy = Object.freeze({
  types: Object.freeze({
    routine: Object.freeze({ keepLast: 3 }),
    pre_operation: Object.freeze({ untilCompleted: true }),
    recovery: Object.freeze({ maxAgeMs: 7 * DAY_MS, untilCleared: true }),
  }),
});

/** The policy a manager applies: the storage's own limits and the defaults, where its user said nothing else. */
export function mergeRetention(policy: RetentionPolicy = {}, { limits }: ChunkStorage): RetentionPolicy {
  checkOptions(limits, RETENTION_CHECKS, 'retention');
  const types = { ...DEFAULT_RETENTION.types, ...withoutUndefined(policy.types ?? {}) };
  return { ...limits, ...withoutUndefined(policy), types };
}

/** Why keep rules want a checkpoint; one that no rule wants is absent. */
export type Kept = ReadonlyMap<CheckpointId, readonly string[]>;

const PERIOD_RULES = ['keepHourly', 'keepDaily', 'keepWeekly', 'keepMonthly'] as const;
const KEEP_RULES = ['keepLast', 'keepWithinMs', ...PERIOD_RULES] as const;

/** A rule of the form: the newest of each of the last N periods that have one. */
type Period = {
  readonly rule: (typeof PERIOD_RULES)[number];
  readonly name: string;
  readonly nameOf: (timestampMs: number) => string;
};

const PERIODS: readonly Period[] = [
  { rule: 'keepHourly', name: 'hour', nameOf: (timeMs) => formatUtc(timeMs, 'yyyy-mm-ddThh'.length) },
  { rule: 'keepDaily', name: 'day', nameOf: (timeMs) => formatUtc(timeMs, 'yyyy-mm-dd'.length) },
  { rule: 'keepWeekly', name: 'week of', nameOf: (timeMs) => formatUtc(mondayOf(timeMs), 'yyyy-mm-dd'.length) },
  { rule: 'keepMonthly', name: 'month', nameOf: (timeMs) => formatUtc(timeMs, 'yyyy-mm'.length) },
];

/** Whether the policy says which checkpoints to keep, so that all others go. */
export function hasKeepRule(policy: RetentionPolicy): boolean {
  return KEEP_RULES.some((rule) => policy[rule] !== undefined);
}

/** Applies the keep rules to each session on its own. */
export async function findKept(
  newestFirst: readonly CheckpointHeader[],
  policy: RetentionPolicy,
  nowMs: number,
): Promise<Kept> {
  const kept = new Map<CheckpointId, string[]>();
  const counters = new Map<string, SessionCounter>();
  await new Breather().each(newestFirst, ({ id, sessionId, timestampMs }) => {
    const counter = counters.get(sessionId) ?? new SessionCounter(policy, nowMs);
    counters.set(sessionId, counter);
    const reasons = counter.count(timestampMs);
    if (reasons.length > 0) kept.set(id, reasons);
  });
  return kept;
}

/** Sees the checkpoints of one session, newest first, and says which rules each of them satisfies. */
class SessionCounter {
  readonly #policy: RetentionPolicy;
  readonly #nowMs: number;
  readonly #seen = new Map(PERIODS.map(({ rule }) => [rule, new Set<string>()]));
  #count = 0;

  constructor(policy: RetentionPolicy, nowMs: number) {
    this.#policy = policy;
    this.#nowMs = nowMs;
  }

  count(timestampMs: number): string[] {
    const { keepLast = 0, keepWithinMs = -1 } = this.#policy;
    this.#count++;
    const reasons = this.#count <= keepLast ? [`among the last ${keepLast} of its session`] : [];
    if (this.#nowMs - timestampMs <= keepWithinMs) reasons.push('young enough');
    for (const { rule, name, nameOf } of PERIODS) {
      if (this.#policy[rule] === undefined) continue;
      const period = nameOf(timestampMs);
      if (this.#isNext(rule, period)) reasons.push(`newest of the ${name} ${period}`);
    }
    return reasons;
  }

  /** Whether this is the first one seen of its period, and the rule still has a place for a period. */
  #isNext(rule: Period['rule'], period: string): boolean {
    const seen = this.#seen.get(rule);
    if (seen === undefined || seen.has(period) || seen.size >= (this.#policy[rule] ?? 0)) return false;
    seen.add(period);
    return true;
  }
}

/** Weeks begin on Monday, as in ISO 8601; the first day of 1970 was a Thursday. */
function mondayOf(timestampMs: number): number {
  const day = Math.floor(timestampMs / DAY_MS);
  return (day - ((((day + 3) % 7) + 7) % 7)) * DAY_MS;
}

function formatUtc(timestampMs: number, chars: number): string {
  return new Date(timestampMs).toISOString().slice(0, chars).replace('T', ' ');
}

/** Rules of a policy that were given beside it: followed by nobody, they would let the defaults delete. */
const MISPLACED_RULES = Object.fromEntries(
  Object.keys(RETENTION_CHECKS).map((rule) => [rule, { renamedTo: `policy.${rule}` }] as const),
);

/** What the options of `prune` accept, of a session too. */
export const PRUNE_CHECKS = { ...MISPLACED_RULES, policy: options(RETENTION_CHECKS), dryRun: flag };
