import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions, flag, type OptionChecks, options, recordOf, wholeFrom } from '../../core/options.ts';
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
