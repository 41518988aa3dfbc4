import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import { DAY_MS, type RetentionPolicy } from './retention-policy.ts';

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
  const keep = (id: CheckpointId, reason: string): void => {
    kept.set(id, [...(kept.get(id) ?? []), reason]);
  };
  const counters = new Map<string, SessionCounter>();
  await new Breather().each(newestFirst, ({ id, sessionId, timestampMs }) => {
    const counter = counters.get(sessionId) ?? new SessionCounter(policy, nowMs);
    counters.set(sessionId, counter);
    for (const reason of counter.count(timestampMs)) keep(id, reason);
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
