import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions, flag, type OptionChecks, options, recordOf, wholeFrom } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
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

/** A rule of the form: the newest of each of the last N periods that have one. To `keepLast` each checkpoint is one. */
type CountedRule = {
  readonly rule: 'keepLast' | 'keepHourly' | 'keepDaily' | 'keepWeekly' | 'keepMonthly';
  readonly periodOf: (header: CheckpointHeader) => string;
  readonly reason: (period: string, count: number) => string;
};

const byTime = (rule: CountedRule['rule'], name: string, nameOf: (timestampMs: number) => string): CountedRule => ({
  rule,
  periodOf: ({ timestampMs }) => nameOf(timestampMs),
  reason: (period) => `newest of the ${name} ${period}`,
});

const COUNTED_RULES: readonly CountedRule[] = [
  { rule: 'keepLast', periodOf: ({ id }) => id, reason: (_, count) => `among the last ${count} of its session` },
  byTime('keepHourly', 'hour', (timeMs) => formatUtc(timeMs, 'yyyy-mm-ddThh'.length)),
  byTime('keepDaily', 'day', (timeMs) => formatUtc(timeMs, 'yyyy-mm-dd'.length)),
  byTime('keepWeekly', 'week of', (timeMs) => formatUtc(mondayOf(timeMs), 'yyyy-mm-dd'.length)),
  byTime('keepMonthly', 'month', (timeMs) => formatUtc(timeMs, 'yyyy-mm'.length)),
];

/** Whether the policy says which checkpoints to keep, so that all others go. */
export function hasKeepRule(policy: RetentionPolicy): boolean {
  return policy.keepWithinMs !== undefined || COUNTED_RULES.some(({ rule }) => policy[rule] !== undefined);
}

/** Applies the keep rules to each session on its own. */
export async function findKept(
  newestFirst: readonly CheckpointHeader[],
  policy: RetentionPolicy,
  nowMs: number,
): Promise<Kept> {
  const kept = new Map<CheckpointId, string[]>();
  const rules = COUNTED_RULES.flatMap((rule) => {
    const count = policy[rule.rule];
    return count === undefined ? [] : [{ ...rule, count, seen: new Map<SessionId, Set<string>>() }];
  });
  await new Breather().each(newestFirst, (header) => {
    const reasons = nowMs - header.timestampMs <= (policy.keepWithinMs ?? -1) ? ['young enough'] : [];
    for (const { count, seen, periodOf, reason } of rules) {
      const period = periodOf(header);
      const periods = seen.get(header.sessionId) ?? new Set();
      if (periods.has(period) || periods.size >= count) continue;
      seen.set(header.sessionId, periods.add(period));
      reasons.push(reason(period, count));
    }
    if (reasons.length > 0) kept.set(header.id, reasons);
  });
  return kept;
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
