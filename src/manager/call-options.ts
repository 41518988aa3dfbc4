import { InvalidInputError } from '../core/errors.ts';
import * as is from '../core/options.ts';
import { checkOptions, describeValue, isRecord, type OptionCheck, type OptionChecks } from '../core/options.ts';
import { givenId, name } from '../core/record/id.ts';
import { secretsOption } from '../core/secret/redaction.ts';
import type { AgentFactory } from './agent/agent.ts';
import type { RestoreOptions } from './agent/agent-saving.ts';
import { FORK_CHECKS } from './branch/branching.ts';
import type { ListFilter, ListPage } from './branch/history.ts';
import type { EngineOptions } from './engine/engine.ts';
import { SAVE_CHECKS } from './engine/save-options.ts';
import type { SaveGroupOptions } from './group/group.ts';
import type { JoinOptions } from './group/group-membership.ts';
import type { RestoreGroupOptions } from './group/group-restoring.ts';
import { LEASE_CHECKS, owner } from './lease/lease.ts';
import type { AbandonedOptions } from './recovery/abandoned.ts';
import type { Backoff, RecoveryOptions } from './recovery/recovery-options.ts';
import type { RetentionPolicy } from './retention/retention.ts';
import { PRUNE_CHECKS, RETENTION_CHECKS } from './retention/retention-policy.ts';
import { SESSION_CHECKS } from './write/session-options.ts';

/** How a manager is made. Only `storage` is needed. */
export type CheckpointManagerOptions = EngineOptions & {
  /** Makes empty agents by type name, for `restore` without `into` or `factory`. */
  readonly agents?: { readonly [agentType: string]: AgentFactory } | undefined;
  /** What to keep. Default: routine, the last 3 per agent; pre_operation, until completed; recovery, 7 days or until cleared. */
  readonly retention?: RetentionPolicy | undefined;
};

/** A list is read at once. */
const MAX_LIMIT = 1000;
const number = is.accepts('a number of 0 or more', (value) => typeof value === 'number' && value >= 0);
/** A limit of nothing would delete everything, which is never what an unset variable meant. */
const limit = is.wholeFrom(1);
const count = is.wholeFrom(0);

const { type: _type, agentId: _agentId, agentType: _agentType, ...SAVE_GROUP } = SAVE_CHECKS;

const { branch: _branch, ...RECOVERED_SESSION } = SESSION_CHECKS;

const PAGE = { limit: is.wholeFrom(1, MAX_LIMIT), offset: count };

function isClassCodec(value: unknown): boolean {
  const { tag, class: instances, encode, decode } = isRecord(value) ? value : {};
  return is.filledString(tag) === undefined && [instances, encode, decode].every((part) => typeof part === 'function');
}

const MANAGER: OptionChecks<CheckpointManagerOptions> = {
  storage: {
    required: is.either(
      'a storage, such as new SqliteCheckpointStorage({ path }), or an object with save(), load(), listByUser()',
      is.having('commit', 'readCheckpoint', 'listCheckpoints'),
      is.having('save', 'load', 'listByUser'),
    ),
  },
  agents: is.recordOf(is.callback),
  classes: is.listOf(is.accepts('a class codec: { tag, class, encode(), decode() }', isClassCodec)),
  unknownClasses: is.oneOf('refuse', 'keep'),
  limits: is.options({ maxDepth: limit, maxNodes: limit, maxBytes: limit }),
  retention: is.options(RETENTION_CHECKS),
  schemaVersion: count,
  migrations: is.listOf(is.options({ from: { required: count }, migrate: { required: is.callback } })),
  secrets: secretsOption,
  shadowBudgetBytes: count,
  onHandlerError: is.callback,
  telemetry: is.having('trace'),
  now: is.callback,
  random: is.callback,
  setTimer: is.callback,
};

/** Accepts what may be done about differences between the code and a checkpoint. */
export const onDifference = is.oneOf('fail', 'warn', 'accept');

const CHECKS = {
  'new CheckpointManager()': MANAGER,
  'open()': { ...MANAGER, storage: () => 'must be left out: the address says which it is' },
  'save()': { ...SAVE_CHECKS, sessionId: name },
  'restore()': {
    into: is.accepts('an agent', (value) => isRecord(value) || typeof value === 'function'),
    factory: is.callback,
    as: is.accepts('a class', (value) => typeof value === 'function'),
    allowOther: is.flag,
    onDifference,
  } satisfies OptionChecks<RestoreOptions>,
  'session()': SESSION_CHECKS,
  'recoverAbandoned()': {
    ttlMs: is.delayFrom(1),
    maxAttempts: limit,
    backoffMs: is.either(
      '{ firstMs, factor, maxMs } or a function',
      is.callback,
      is.options({
        firstMs: { required: number },
        factor: { required: number },
        maxMs: { required: number },
      } satisfies OptionChecks<Backoff>),
    ),
    concurrency: limit,
    limit,
    owner,
    everyMs: is.delayFrom(1),
    signal: is.signal,
    session: is.options(RECOVERED_SESSION),
    isEager: is.flag,
    isMine: is.callback,
    onPoisoned: is.callback,
    onError: is.callback,
  } satisfies OptionChecks<RecoveryOptions>,
  'abandoned()': { limit, isEager: is.flag } satisfies OptionChecks<AbandonedOptions>,
  'saveGroup()': {
    ...SAVE_GROUP,
    groupId: { required: name },
    timeoutMs: is.positive,
    pollMs: is.positive,
  } satisfies OptionChecks<SaveGroupOptions>,
  'restoreGroup()': {
    into: is.record,
    factory: is.recordOf(is.callback),
    only: is.listOf(name),
    allowOther: is.flag,
    onDifference,
  } satisfies OptionChecks<RestoreGroupOptions>,
  'joinGroup()': {
    onCut: { required: is.callback },
    onError: { required: is.callback },
    pollMs: is.positive,
    signal: is.signal,
  } satisfies OptionChecks<JoinOptions>,
  'a filter of checkpoints': {
    sessionId: name,
    branch: name,
    agentId: givenId,
    userId: givenId,
    type: name,
    status: name,
    from: is.date,
    to: is.date,
    metadata: is.record,
  } satisfies OptionChecks<ListFilter>,
  'list()': {
    ...PAGE,
    order: is.oneOf('newest', 'oldest'),
    cursor: is.filledString,
  } satisfies OptionChecks<ListPage>,
  'listByUser()': PAGE,
  'fork()': FORK_CHECKS,
  'rewind()': FORK_CHECKS,
  'prune()': { ...PRUNE_CHECKS, sessionId: name },
  'cleanupOldCheckpoints()': { maxAgeDays: { required: limit } },
  'delete()': { reason: is.anything },
  'forgetUser()': { dryRun: is.flag },
  'gc()': { signal: is.signal },
  'verify()': { readData: is.flag },
  'on()': { await: is.flag, from: is.oneOf('here', 'everywhere') },
} as const;

/** Accepts the options of a lease, as a part of others. */
export const leaseOptions: OptionCheck = is.options(LEASE_CHECKS);

/** Accepts a CheckpointManager. */
export const manager: OptionCheck = is.accepts(
  'a CheckpointManager',
  (value) => is.having('session', 'restore', 'prune')(value) === undefined,
);

/** Methods of the manager that take arguments only. */
export const WITHOUT_OPTIONS =
  'load open get tree children pathToRoot currentBranch branches compare switchBranch deleteBranch tag untag tags pin unpin completeOperation clearRecovery clearUserHistory deleteSession dropRecordings stats exportSession importSession exportCheckpoint'.split(
    ' ',
  );

/**
 * Lets methods refuse what is given to them beyond their arguments: it would be ignored, and somebody meant something by it. What is
 * undefined counts as left out.
 */
export function takeNoOptions(prototype: object, names: readonly string[]): void {
  for (const name of names) {
    const method: unknown = Reflect.get(prototype, name);
    if (typeof method !== 'function') throw new InvalidInputError(`There is no method ${name}().`);
    const value = function (this: unknown, ...given: unknown[]): unknown {
      const more = given.slice(method.length).find((argument) => argument !== undefined);
      return more === undefined ? Reflect.apply(method, this, given) : refuseMore(name, more);
    };
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}

/** As a failure of the call, which only one does not wait for. */
function refuseMore(name: string, more: unknown): Promise<never> {
  const error = new InvalidInputError(`${name}() takes no options; found ${describeValue(more)} behind its arguments.`);
  if (name === 'exportSession') throw error;
  return Promise.reject(error);
}

/** A call of the library whose options are checked here. */
export type Call = keyof typeof CHECKS;

/** Accepts the options of a call, as `checkOptions` does. */
export function checkCall(given: object, of: Call): void {
  checkOptions(given, CHECKS[of], of);
}
