import { InvalidInputError } from '../../core/errors.ts';
import {
  accepts,
  anything,
  callback,
  describeValue,
  filledString,
  flag,
  isRecord,
  listOf,
  type OptionCheck,
  type OptionChecks,
  oneOf,
  options,
  positive,
  record,
  recordOf,
  signal,
  string,
  wholeFrom,
} from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { manager, onDifference } from '../../manager/call-options.ts';
import { registry } from '../agent/agent-registry.ts';
import type { HumanInTheLoopSettings } from '../config/config-schema.ts';
import type { DifferenceOptions } from './differences.ts';
import type { FilesOptions } from './files/session-files.ts';
import type { RestoreOptions, RestorerParts } from './team-restorer.ts';

const mode = oneOf('live', 'recorded', 'frozen');
const rounds = wholeFrom(1);

/** Accepts metadata of the caller's own: what a run says of its checkpoints itself would replace them. */
export function metadataBut(...own: readonly string[]): OptionCheck {
  return (value) => {
    if (!isRecord(value)) return record(value);
    const taken = own.find((key) => Object.hasOwn(value, key));
    if (taken === undefined) return undefined;
    return `has the key ${describeValue(taken)}, which the run sets itself; use a key that is none of ${own.join(', ')}`;
  };
}

/** Accepts some of the settings of `workflow.human_in_the_loop`. */
export const humanInTheLoop: OptionCheck = options({
  enabled: flag,
  approval_timeout_seconds: positive,
  auto_reject_on_timeout: flag,
  require_approval_for: listOf(filledString),
  trusted_operations: listOf(filledString),
} satisfies OptionChecks<HumanInTheLoopSettings>);

/** Throws if an operation both needs a person's word and is trusted. */
export function checkTrust(settings: Partial<HumanInTheLoopSettings>): void {
  const { require_approval_for: required = [], trusted_operations: trusted = [] } = settings;
  const operations = required.filter((name) => trusted.includes(name));
  if (operations.length === 0) return;
  throw new InvalidInputError(
    `"${operations[0]}" is in require_approval_for and in trusted_operations. Decide for one of them.`,
    { details: { operations } },
  );
}

const DIFFERENCES = {
  onDifference,
  onDrift: onDifference,
  allowPartial: flag,
} as const satisfies OptionChecks<DifferenceOptions>;

/** What every run of a team accepts; the memory is checked where it is used. */
const RUN = {
  userId: name,
  ask: callback,
  signal,
  onText: callback,
  onMessage: callback,
  onCheckpoint: callback,
  memory: anything,
} as const;

const OWN_METADATA = ['round', 'endReason', 'continuedFrom', 'continuedFromSession', 'rewoundTo'] as const;

/** What every run of a chat accepts. */
export const CHAT_RUN = {
  ...RUN,
  answers: recordOf(string),
  metadata: metadataBut(...OWN_METADATA, 'messages', 'speaker', 'signal', 'isPending', 'intervention', 'trial'),
} as const;

/** What every run of a fleet accepts. */
export const FLEET_RUN = {
  ...RUN,
  onTaskLedger: callback,
  onProgressLedger: callback,
  onToolCall: callback,
  metadata: metadataBut(...OWN_METADATA, 'stalls', 'resets', 'phase'),
} as const;

/** Which files a run writes. */
export const FILES = {
  logs: accepts('a folder or false', (value) => value === false || filledString(value) === undefined),
  checkpointFiles: flag,
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
  classes: anything,
};

/** How a team is put back. */
export const RESTORE = {
  ...DIFFERENCES,
  overrides: options({ agents: record, settings: record }),
} as const satisfies OptionChecks<RestoreOptions<object>>;

/** What every continuation accepts besides. */
export const CONTINUATION = {
  ...RESTORE,
  branch: name,
  reason: filledString,
  mode,
  prompt: filledString,
  prepare: callback,
} as const;
