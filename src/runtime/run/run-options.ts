import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { describeValue, isRecord, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { manager, onDifference } from '../../manager/call-options.ts';
import { registry } from '../agent/agent-registry.ts';
import type { HumanInTheLoopSettings } from '../config/config-schema.ts';
import { findSlip } from '../config/operation-name.ts';
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

/** Throws if an operation both needs a person's word and is trusted, or is nearly one that is known. */
export function checkTrust(settings: Partial<HumanInTheLoopSettings>): void {
  const { require_approval_for: required = [], trusted_operations: trusted = [] } = settings;
  checkNames([...required, ...trusted]);
  const operations = required.filter((name) => trusted.includes(name));
  if (operations.length === 0) return;
  throw new InvalidInputError(
    `"${operations[0]}" is in require_approval_for and in trusted_operations. Decide for one of them.`,
    { details: { operations } },
  );
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
  checkpoints: { renamedTo: 'manager' },
  sessionId: { required: name },
  branch: name,
  mode,
} as const;

/** How a session goes on. */
export const RESUME = { ...DIFFERENCES, rounds } as const;

/** Where checkpoints are restored from, and the code they need. */
export const PARTS: OptionChecks<RestorerParts> = {
  manager: { required: manager },
  checkpoints: { renamedTo: 'manager' },
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
