import { randomUUID } from 'node:crypto';
import { anything, checkOptions, filledString, type OptionChecks, oneOf } from '../../core/options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import { CHAT, type ChatTypes } from '../chat/chat-kind.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import { CONTINUE, type ContinueOptions, type ContinueResult, continueChat } from '../chat/checkpoint-restorer.ts';
import { PARTS } from '../run/run-options.ts';
import { TeamRestorer } from '../run/team-restorer.ts';
import type { Edit } from '../run/team-run.ts';
import { applyTarget } from './apply-target.ts';
import { INTERVENED } from './chat-path.ts';
import { INTERVENTION_KEYS, type Intervention, type InterventionRecord, type Target } from './intervention.ts';
import { locateTarget } from './locate-target.ts';

/** Where conversations are kept, and the code they need. */
export type RepairParts = { readonly manager: CheckpointManager; readonly registry?: AgentRegistry };

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

// What is changed is checked where it is read.
const REQUEST: OptionChecks<InterveneOptions> = {
  ...BRANCH,
  ...Object.fromEntries(INTERVENTION_KEYS.map((key) => [key, anything])),
};

/** What came of an intervention; `originId` is the checkpoint that was asked for. */
export type InterveneResult = ContinueResult & {
  /** The checkpoint that was restored. */
  readonly baseId: string;
  /** The one that holds the change, with its author and reason: the first of the branch. */
  readonly editedId: string;
  readonly intervention: InterventionRecord;
};

/**
 * Changes one thing of a conversation (a message, a prompt, a model, a tool's answer) and goes on from there as a new branch: what came
 * after it is not in the branch, every private copy has the change, and everybody's count of replies begins anew. The original stays as it is.
 */
export async function intervene(
  parts: RepairParts,
  checkpoint: string,
  request: Intervention & InterveneOptions,
): Promise<InterveneResult> {
  checkOptions(parts, PARTS, 'intervene()');
  checkOptions(request, REQUEST, 'intervene()');
  return holdBranch(parts, await locateTarget(parts.manager, checkpoint, request), request);
}

/** Goes on from the base as a new branch, whose first checkpoint holds the change. */
export async function holdBranch(
  parts: RepairParts,
  target: Target,
  given: InterveneOptions,
): Promise<InterveneResult> {
  const { base, record, replayBranch } = target;
  // Never used before: recordings of a deleted branch of the same name must not be taken for its own.
  const { author, reason, onCheckpoint, branch = `repair-${base.sequence}-${randomUUID().slice(0, 8)}` } = given;
  let [isForked, editedId] = [false, ''];
  const make: Edit<ChatTypes>['make'] = async (chat, world) => {
    isForked = true;
    await applyTarget(chat, target, { ...given, world });
    chat.reopen({ rounds: given.rounds, stripSignal: given.stripSignal });
  };
  try {
    const result = await continueChat(new TeamRestorer(CHAT, parts), base.id, {
      options: {
        ...describeBranch(target, given),
        branch,
        replayBranch,
        // To take a turn again up to a call, its recording is needed whatever comes after it.
        ...(target.kind === 'tool_result' && { mode: 'recorded' }),
        onCheckpoint: (checkpoint, chat) => {
          editedId ||= checkpoint.id;
          return onCheckpoint?.(checkpoint, chat);
        },
      },
      edit: { trigger: INTERVENED, author, reason, make },
    });
    return { ...result, originId: record.originId, baseId: base.id, editedId, intervention: record };
  } catch (error) {
    // A branch that could not be begun is taken away again: there is nothing on it.
    if (isForked && editedId === '') await Promise.allSettled([parts.manager.deleteBranch(base.sessionId, branch)]);
    throw error;
  }
}

/** Goes on with a branch that was begun: where it was left, or not at all if it has ended. */
export async function resumeBranch(
  parts: RepairParts,
  { target, branch }: { readonly target: Target; readonly branch: string },
  given: InterveneOptions,
): Promise<ChatRunResult> {
  // They are in the state already; rounds that were granted must not be taken back.
  const { overrides: _, files: __, ...options } = given;
  const begun = { origin: target.base, branch };
  return continueChat(new TeamRestorer(CHAT, parts), begun, { options: describeBranch(target, options) });
}

/** Every checkpoint of the branch says what it began with. */
function describeBranch({ record }: Target, options: InterveneOptions): InterveneOptions {
  return { ...options, metadata: { ...options.metadata, intervention: record } };
}
