import { randomUUID } from 'node:crypto';
import { withoutUndefined } from '../../core/defined.ts';
import { filledString, type OptionChecks, oneOf } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import { CHAT } from '../chat/chat-kind.ts';
import { type ChatRunOptions, type ChatRunResult, holdChat } from '../chat/chat-run.ts';
import { CheckpointRestorer, CONTINUE, type ContinueOptions, type RestoredChat } from '../chat/checkpoint-restorer.ts';
import type { GroupChat } from '../chat/group-chat.ts';
import { type DifferenceReport, decide } from '../run/differences.ts';
import { DEFAULT_ROOT, openContinuationFiles, type SessionFiles } from '../run/files/session-files.ts';
import { fingerprintOf, type TeamFacts } from '../run/team-facts.ts';
import { MoveWorks } from '../run/work.ts';
import { applyTarget } from './apply-target.ts';
import { INTERVENED } from './chat-path.ts';
import type { InterventionRecord } from './intervention.ts';
import type { Target } from './target.ts';

/** Where conversations are kept, and the code they need. */
export type RepairParts = { readonly checkpoints: CheckpointManager; readonly registry?: AgentRegistry };

/** How an intervened conversation goes on. */
export type InterveneOptions = Omit<ContinueOptions, 'mode' | 'prepare' | 'prompt'> & {
  /** Who intervenes. */
  readonly author?: string;
  /** `recorded` uses what was recorded after the changed message as long as it fits; default `live`. */
  readonly mode?: 'live' | 'recorded';
};

const { mode: _mode, prepare: _prepare, prompt: _prompt, ...CONTINUED } = CONTINUE;

/** What is checked before a branch is begun. */
export const BRANCH = {
  ...CONTINUED,
  author: filledString,
  mode: oneOf('live', 'recorded'),
} satisfies OptionChecks<InterveneOptions>;

/** What came of an intervention. */
export type InterveneResult = ChatRunResult & {
  /** The checkpoint that was asked for. */
  readonly originId: string;
  /** The one that was restored. */
  readonly baseId: string;
  /** The one that holds the change, with its author and reason: the first of the branch. */
  readonly editedId: string;
  readonly intervention: InterventionRecord;
  readonly report: DifferenceReport;
};

/** Restores the base, makes the change, saves it as the first checkpoint of a new branch, and goes on from there. */
export async function holdBranch(
  parts: RepairParts,
  target: Target,
  given: InterveneOptions,
): Promise<InterveneResult> {
  const options = withUser(target, given);
  const { chat, report, facts } = await restoreBase(parts, target, options);
  const session = await openBranch(parts.checkpoints, target, options);
  try {
    const editedId = await beginBranch(parts.checkpoints, { chat, session, target, facts }, options);
    const files = await openFiles(parts.checkpoints, target, options);
    const metadata = describeBranch(target, options);
    const result = await holdChat(
      chat,
      { checkpoints: parts.checkpoints, session, files, facts },
      { ...options, metadata },
    );
    const { originId, baseId } = target.record;
    return { ...result, originId, baseId, editedId, intervention: target.record, report };
  } finally {
    await session.close();
  }
}

/** Goes on with a branch that was begun: where it was left, or not at all if it has ended. */
export async function resumeBranch(
  parts: RepairParts,
  { target, branch, headId }: { readonly target: Target; readonly branch: string; readonly headId: string },
  given: InterveneOptions,
): Promise<ChatRunResult> {
  const options = withUser(target, given);
  // Overrides are in the state already; rounds that were granted must not be taken back.
  const { chat, facts } = await new CheckpointRestorer(parts).restore(headId, { onDifference: decide(options) });
  const session = await parts.checkpoints.session(target.base.sessionId, { branch });
  try {
    const files = chat.record.end === null ? await openFiles(parts.checkpoints, target, options) : undefined;
    const metadata = describeBranch(target, options);
    return await holdChat(chat, { checkpoints: parts.checkpoints, session, files, facts }, { ...options, metadata });
  } finally {
    await session.close();
  }
}

/** What is done with a user's conversation is the user's, too: it is listed and forgotten with the rest. */
function withUser({ base: { userId } }: Target, options: InterveneOptions): InterveneOptions {
  return userId === undefined ? options : { userId, ...options };
}

async function restoreBase(
  parts: RepairParts,
  { base }: Target,
  options: InterveneOptions,
): Promise<Omit<RestoredChat, 'checkpoint'>> {
  const restorer = new CheckpointRestorer(parts);
  const restored = await restorer.restore(base.id, {
    ...withoutUndefined({ overrides: options.overrides }),
    onDifference: decide(options),
  });
  if (options.files === 'restore') await restorer.restoreFiles(base.id);
  return restored;
}

/** To take a turn again up to a call, its recording is needed whatever comes after it. */
async function openBranch(
  checkpoints: CheckpointManager,
  { base, kind, replayBranch }: Target,
  { branch, mode }: InterveneOptions,
): Promise<Session> {
  const forked = await checkpoints.fork(base.id, { branch: branch ?? nameBranch(base) });
  const isReplay = mode === 'recorded' || kind === 'tool_result';
  return checkpoints.session(forked.sessionId, {
    branch: forked.branch,
    ...(isReplay && { mode: 'recorded' as const, replayBranch }),
  });
}

/** Never used before: recordings of a deleted branch of the same name must not be taken for its own. */
function nameBranch({ sequence }: Checkpoint): string {
  return `repair-${sequence}-${randomUUID().slice(0, 8)}`;
}

type Beginning = {
  readonly chat: GroupChat;
  readonly session: Session;
  readonly target: Target;
  readonly facts: TeamFacts;
};

/** A branch that could not be begun is taken away again: there is nothing on it. */
async function beginBranch(
  checkpoints: CheckpointManager,
  beginning: Beginning,
  options: InterveneOptions,
): Promise<string> {
  try {
    return await applyAndSave(beginning, options);
  } catch (error) {
    await beginning.session.close();
    await Promise.allSettled([checkpoints.deleteBranch(beginning.session.id, beginning.session.branch)]);
    throw error;
  }
}

async function applyAndSave({ chat, session, target, facts }: Beginning, options: InterveneOptions): Promise<string> {
  const { reason, author, signal, onText, mode } = options;
  const effects = new MoveWorks(session, () => CHAT.workOf(chat));
  await applyTarget(chat, target, { effects, reason, author, signal, onText, usesRecordings: mode === 'recorded' });
  chat.reopen(options);
  const fingerprint = fingerprintOf(facts, chat.saveState());
  return session.save(chat.saveState(), { ...describeBeginning(chat, target, options), fingerprint });
}

function describeBeginning(chat: GroupChat, target: Target, options: InterveneOptions): SaveOptions {
  const { author, reason, userId } = options;
  const { round, messages, pendingReply, lastSpeaker } = chat.record;
  return {
    type: 'manual',
    trigger: INTERVENED,
    status: 'running',
    ...withoutUndefined({ author, reason, userId }),
    metadata: {
      ...describeBranch(target, options),
      round,
      messages: messages.length,
      speaker: pendingReply?.speaker ?? lastSpeaker,
      ...(pendingReply !== null && { isPending: true }),
    },
  };
}

/** Said of every checkpoint of the branch. */
function describeBranch({ base, record }: Target, { metadata }: ChatRunOptions): Record<string, unknown> {
  return { ...metadata, continuedFrom: base.id, continuedFromSession: base.sessionId, intervention: record };
}

async function openFiles(
  checkpoints: CheckpointManager,
  { base }: Target,
  { logs, checkpointFiles: hasStates = logs !== undefined, outputRoot, rounds }: InterveneOptions,
): Promise<SessionFiles | undefined> {
  if (logs === false && outputRoot === undefined) return undefined;
  const root = logs === false ? '.' : (logs ?? DEFAULT_ROOT);
  const { sessionId } = base;
  return openContinuationFiles({ checkpoints, origin: base, sessionId, rounds, root, outputRoot, hasStates });
}
