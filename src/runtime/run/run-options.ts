import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { describeValue, isRecord, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import { escapePattern } from '../../core/pattern/escape-pattern.ts';
import { LinearPattern } from '../../core/pattern/linear-pattern.ts';
import { name } from '../../core/record/id.ts';
import { manager, onDifference } from '../../manager/call-options.ts';
import { registry } from '../agent/agent-registry.ts';
import type { HumanInTheLoopSettings } from '../config/config-schema.ts';
import { APPROVAL_TIMEOUT_SECONDS, findSlip, NEEDING_APPROVAL } from '../config/operation-name.ts';
import type { DifferenceOptions } from './differences.ts';
import type { FilesOptions } from './files/session-files.ts';
import type { RestoreOptions, RestorerParts } from './team-restorer.ts';

const mode = is.oneOf('live', 'recorded', 'frozen');
const rounds = is.wholeFrom(1);

/** Accepts metadata of the caller's own: what a run says of its checkpoints itself would replace them. */
export function metadataBut(...own: readonly string[]): OptionCheck {
  return (value) => {
    if (!isRecord(value)) return is.record(value);
    const taken = own.find((key) => Object.hasOwn(value, key));
    if (taken === undefined) return undefined;
    return `has the key ${describeValue(taken)}, which the run sets itself; use a key that is none of ${own.join(', ')}`;
  };
}

/** Accepts some of the settings of `workflow.human_in_the_loop`. */
export const humanInTheLoop: OptionCheck = is.options({
  enabled: is.flag,
  approval_timeout_seconds: is.positive,
  auto_reject_on_timeout: is.flag,
  require_approval_for: is.listOf(is.filledString),
  trusted_operations: is.listOf(is.filledString),
} satisfies OptionChecks<HumanInTheLoopSettings>);

/** Refuses names of operations or tools that are nearly one that is known. */
export function checkNames(names: readonly string[], known: readonly string[] = []): void {
  const slip = names.map((name) => findSlip(name, known)).find((problem) => problem !== undefined);
  if (slip !== undefined) throw new InvalidInputError(slip);
}

/** Throws if an operation both needs a person's word and is trusted, or it or what a tool does is nearly one that is known. */
export function checkTrust({
  requireApprovalFor: required,
  trustedOperations: trusted,
  operations: kinds,
}: Pick<OperationPolicy, 'requireApprovalFor' | 'trustedOperations' | 'operations'>): void {
  checkNames([...required, ...trusted]);
  checkNames(Object.values(kinds), [...required, ...trusted]);
  const operations = required.filter((name) => trusted.includes(name));
  if (operations.length === 0) return;
  throw new InvalidInputError(
    `"${operations[0]}" is in require_approval_for and in trusted_operations. Decide for one of them.`,
    { details: { operations } },
  );
}

/** Which operations a person must agree to; plain data. */
export type OperationPolicy = {
  /** Names or patterns with `*`: of tools, of what tools are said to do, or `code_execution`. */
  readonly requireApprovalFor: readonly string[];
  /** Names or patterns that need nobody's word, also where a pattern above fits. */
  readonly trustedOperations: readonly string[];
  /** What tools do, by their name: `{ fetch_page: 'external_api_calls' }`. */
  readonly operations: Readonly<Record<string, string>>;
  /** How long a request stays open; null: for ever. */
  readonly approvalTimeoutMs: number | null;
  /** Whether nobody's answer in time means no. Otherwise the request stays open. */
  readonly autoRejectOnTimeout: boolean;
};

/** What running code is called. */
const CODE_EXECUTION = 'code_execution';

/** Nobody is asked. */
const NO_POLICY: OperationPolicy = {
  requireApprovalFor: [],
  trustedOperations: [],
  operations: {},
  approvalTimeoutMs: null,
  autoRejectOnTimeout: false,
};

const SECOND_MS = 1_000;

/** A policy from the settings of `workflow.human_in_the_loop`, with its defaults; without settings nobody is asked. */
export function createPolicy(
  settings: Partial<HumanInTheLoopSettings> | undefined,
  operations: Readonly<Record<string, string>> = {},
): OperationPolicy {
  const { enabled = true, ...asked } = withoutUndefined(settings ?? { enabled: false });
  const policy = { ...NO_POLICY, ...(settings && askedPolicy(asked)), operations }; // its keys in their order
  checkTrust(policy);
  return enabled ? policy : { ...NO_POLICY, operations };
}

/** Nothing is trusted but what is named; settings that only say how people are asked ask for the operations that need it. */
function askedPolicy(settings: Partial<HumanInTheLoopSettings>): Omit<OperationPolicy, 'operations'> {
  const { auto_reject_on_timeout: autoRejectOnTimeout = false, trusted_operations: trustedOperations = [] } = settings;
  const needing = NEEDING_APPROVAL.filter((name) => !trustedOperations.includes(name));
  const { require_approval_for: requireApprovalFor = needing } = settings;
  const seconds = settings.approval_timeout_seconds ?? (autoRejectOnTimeout ? APPROVAL_TIMEOUT_SECONDS : undefined);
  const approvalTimeoutMs = seconds === undefined ? null : seconds * SECOND_MS;
  return { requireApprovalFor, trustedOperations, approvalTimeoutMs, autoRejectOnTimeout };
}

/**
 * What a person has to agree to before a tool is called or code is run; undefined if nobody has to. Whole names count before patterns, the
 * name of the tool before what it does, and among patterns trust comes first.
 */
export function findOperation(
  { requireApprovalFor, trustedOperations, operations }: OperationPolicy,
  call: { readonly kind: 'tool' | 'code'; readonly name: string },
): string | undefined {
  const names = call.kind === 'code' ? [CODE_EXECUTION] : namesOf(operations, call.name);
  const named = names.find((name) => requireApprovalFor.includes(name) || trustedOperations.includes(name));
  if (named !== undefined) return requireApprovalFor.includes(named) ? named : undefined;
  if (names.some((name) => fits(trustedOperations, name))) return undefined;
  return names.find((name) => fits(requireApprovalFor, name));
}

function namesOf(operations: OperationPolicy['operations'], tool: string): string[] {
  const operation = Object.hasOwn(operations, tool) ? operations[tool] : undefined;
  return operation === undefined ? [tool] : [tool, operation];
}

function fits(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => toPattern(pattern).test(name));
}

function toPattern(pattern: string): LinearPattern {
  const parts = pattern.split('*').map(escapePattern);
  return new LinearPattern({ source: `^${parts.join('.*')}$` }, 'require_approval_for');
}

const DIFFERENCES = { onDifference } as const satisfies OptionChecks<DifferenceOptions>;

/** What every run of a team accepts; the memory is checked where it is used. */
const RUN = {
  userId: name,
  ask: is.callback,
  signal: is.signal,
  onText: is.callback,
  onMessage: is.callback,
  onCheckpoint: is.callback,
  memory: is.anything,
} as const;

const OWN_METADATA = ['round', 'endReason', 'continuedFrom', 'continuedFromSession', 'rewoundTo'] as const;

/** Answers to requests, by their ids. */
export const ANSWERS = {
  answers: is.recordOf(
    is.either(
      'a string, or { answer, by, value }',
      is.string,
      is.options({ answer: { required: is.string }, by: is.filledString, value: is.anything }),
    ),
  ),
} as const;

/** What every run of a chat accepts. */
export const CHAT_RUN = {
  ...RUN,
  ...ANSWERS,
  metadata: metadataBut(...OWN_METADATA, 'messages', 'speaker', 'signal', 'isPending', 'intervention', 'trial'),
} as const;

/** What every run of a fleet accepts. */
export const FLEET_RUN = {
  ...RUN,
  onTaskLedger: is.callback,
  onProgressLedger: is.callback,
  onToolCall: is.callback,
  metadata: metadataBut(...OWN_METADATA, 'stalls', 'resets', 'phase'),
} as const;

/** Which files a run writes. */
export const FILES = {
  logs: is.accepts('a folder or false', (value) => value === false || is.filledString(value) === undefined),
  checkpointFiles: is.flag,
} as const satisfies OptionChecks<FilesOptions>;

/** What the manager of a team's session is made with, besides its team and its run. */
export const HELD = {
  ...DIFFERENCES,
  manager: { required: manager },
  sessionId: { required: name },
  branch: name,
  mode,
} as const;

/** How a session goes on. */
export const RESUME = { ...DIFFERENCES, rounds } as const;

/** Where checkpoints are restored from, and the code they need. */
export const PARTS: OptionChecks<RestorerParts> = {
  manager: { required: manager },
  registry,
  classes: is.anything,
};

/** How a team is put back. */
export const RESTORE = {
  ...DIFFERENCES,
  overrides: is.options({ agents: is.record, settings: is.record }),
} as const satisfies OptionChecks<RestoreOptions<object>>;

/** What every continuation accepts besides. */
export const CONTINUATION = {
  ...RESTORE,
  branch: name,
  reason: is.filledString,
  mode,
  prompt: is.filledString,
  prepare: is.callback,
} as const;
