import { InvalidInputError } from '../core/errors.ts';
import type { ChunkStorage } from '../storage/contract.ts';

/** How long checkpoints of one type are kept. Each limit given may end it; a rule without limits keeps them all. */
export type TypeRetention = {
  /** The newest of this type, per agent of one user; per session where a checkpoint has no agent. */
  readonly keepLast?: number;
  readonly maxAgeMs?: number;
  /** Kept, whatever else is said, until its operation is marked completed; then dropped. */
  readonly untilCompleted?: boolean;
  /** Dropped as soon as it is marked cleared. */
  readonly untilCleared?: boolean;
};

/** What to keep. An absent rule does not apply; the empty policy keeps everything. */
export type RetentionPolicy = {
  readonly types?: { readonly [type: string]: TypeRetention };
  /** No more than these stay: where only heads of branches are left, the sessions idle longest go whole. */
  readonly maxCheckpoints?: number;
  /** The same for each user. */
  readonly maxCheckpointsPerUser?: number;
  /** Older ones go, with branches and whole sessions that were not saved to since. */
  readonly maxAgeDays?: number;
  readonly keepLast?: number;
  readonly keepHourly?: number;
  readonly keepDaily?: number;
  readonly keepWeekly?: number;
  readonly keepMonthly?: number;
  /** Everything that is not older than this. */
  readonly keepWithinMs?: number;
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
export function mergeRetention(policy: RetentionPolicy | undefined, { limits }: ChunkStorage): RetentionPolicy {
  checkRetentionPolicy(limits);
  if (policy !== undefined) checkRetentionPolicy(policy);
  return { ...limits, ...policy, types: { ...DEFAULT_RETENTION.types, ...policy?.types } };
}

type Check = (value: unknown, field: string) => void;

const POLICY_CHECKS: Readonly<Record<keyof RetentionPolicy, Check>> = {
  types: checkTypes,
  maxCheckpoints: checkLimit,
  maxCheckpointsPerUser: checkLimit,
  maxAgeDays: checkLimit,
  keepLast: checkCount,
  keepHourly: checkCount,
  keepDaily: checkCount,
  keepWeekly: checkCount,
  keepMonthly: checkCount,
  keepWithinMs: checkCount,
};

const TYPE_CHECKS: Readonly<Record<keyof TypeRetention, Check>> = {
  keepLast: checkCount,
  maxAgeMs: checkCount,
  untilCompleted: checkFlag,
  untilCleared: checkFlag,
};

/** Accepts a retention policy or throws an InvalidInputError that names the field, what was found and what is allowed. */
export function checkRetentionPolicy(policy: unknown): asserts policy is RetentionPolicy {
  checkFields(policy, 'retention', POLICY_CHECKS);
}

function checkTypes(value: unknown, field: string): void {
  for (const [type, rule] of Object.entries(openFields(value, field)))
    checkFields(rule, `${field}[${JSON.stringify(type)}]`, TYPE_CHECKS);
}

function checkFields(value: unknown, field: string, checks: Readonly<Record<string, Check>>): void {
  for (const [key, part] of Object.entries(openFields(value, field))) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
    if (check === undefined) throw refuse(`${field} has the unknown key ${JSON.stringify(key)}`, Object.keys(checks));
    // An option that was computed and came out undefined means the same as one that was left out.
    if (part !== undefined) check(part, `${field}.${key}`);
  }
}

function openFields(value: unknown, field: string): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw refuse(`${field} is ${describe(value)}`, ['an object']);
}

function checkCount(value: unknown, field: string): void {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw refuse(`${field} is ${describe(value)}`, ['a whole number, 0 or more']);
}

/** A limit of nothing would delete everything, which is never what an unset variable meant. */
function checkLimit(value: unknown, field: string): void {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1)
    throw refuse(`${field} is ${describe(value)}`, ['a whole number, 1 or more']);
}

function checkFlag(value: unknown, field: string): void {
  if (typeof value !== 'boolean') throw refuse(`${field} is ${describe(value)}`, ['true', 'false']);
}

function refuse(found: string, allowed: readonly string[]): InvalidInputError {
  return new InvalidInputError(`${found}; allowed: ${allowed.join(', ')}.`, { details: { found, allowed } });
}

function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'a list' : `of type ${typeof value}`;
}
