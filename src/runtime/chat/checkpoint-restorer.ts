import { resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions, filledString, flag, isRecord, type OptionChecks, oneOf, wholeFrom } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { CodeExecutionConfig } from '../code/code-executor.ts';
import { addProblems, type DifferenceReport, report } from '../run/differences.ts';
import { type FilesOptions, openContinuationFiles } from '../run/files/session-files.ts';
import { CHAT_RUN, CONTINUATION, FILES, RESTORE } from '../run/run-options.ts';
import {
  type BegunBranch,
  type BranchOptions,
  type CheckpointSource,
  type RestoreOptions,
  type RestorerParts,
  TeamRestorer,
} from '../run/team-restorer.ts';
import type { Edit } from '../run/team-run.ts';
import { type ApplyOptions, applyRestore } from '../workspace/apply-restore.ts';
import { planRestore } from '../workspace/plan-restore.ts';
import type { WorkspacePlan, WorkspaceReport } from '../workspace/workspace-plan.ts';
import { NOT_CAPTURED, type WorkspaceState } from '../workspace/workspace-state.ts';
import { CHAT, type ChatTypes } from './chat-kind.ts';
import { type ChatRunOptions, type ChatRunResult, describeConversation, holdChat } from './chat-run.ts';
import { type ChatSettings, type ChatState, saidIn } from './chat-state.ts';
import type { GroupChat } from './group-chat.ts';

/** How a conversation is put back. */
export type RestoreChatOptions = RestoreOptions<ChatSettings>;

/** A conversation as it was at a checkpoint, with new agents. */
export type RestoredChat = {
  readonly chat: GroupChat;
  readonly checkpoint: Checkpoint;
  readonly report: DifferenceReport;
};

/** How a conversation is continued. */
export type ContinueOptions = RestoreChatOptions &
  BranchOptions &
  ChatRunOptions &
  FilesOptions & {
    /** Exactly so many messages are appended, unless the conversation ends before. */
    readonly rounds: number;
    /** Said as the person before the conversation goes on, also if it had ended: the resumed request. */
    readonly prompt?: string;
    /** Takes the words that ended the conversation out of its last message. */
    readonly stripSignal?: boolean;
    /** Where the folder of the continuation goes, instead of into the folder of its session. */
    readonly outputRoot?: string;
    /** `restore` makes the working directories what they were, and deletes files that were not there then; default `keep`. */
    readonly files?: 'keep' | 'restore';
    /** Changes the restored conversation before it goes on. */
    readonly prepare?: (chat: GroupChat) => void | Promise<void>;
  };

/** What `continue()` accepts. */
export const CONTINUE = {
  ...CHAT_RUN,
  ...CONTINUATION,
  ...FILES,
  rounds: { required: wholeFrom(1) },
  stripSignal: flag,
  outputRoot: filledString,
  files: oneOf('keep', 'restore'),
} satisfies OptionChecks<ContinueOptions>;

/** What came of a continuation. */
export type ContinueResult = ChatRunResult & {
  readonly originId: string;
  readonly report: DifferenceReport;
  /** What `files: 'restore'` did to each agent's working directory, file by file. */
  readonly restoredFiles: Readonly<Record<string, WorkspaceReport>>;
};

/** Rebuilds agents, group and conversation from a checkpoint, and continues from there as a new branch. */
export class CheckpointRestorer {
  readonly #restorer: TeamRestorer<ChatTypes>;

  constructor(parts: RestorerParts) {
    this.#restorer = new TeamRestorer(CHAT, parts);
  }

  /** Puts a conversation back without going on. Nothing is written. */
  async restore(source: CheckpointSource, options: RestoreChatOptions = {}): Promise<RestoredChat> {
    checkOptions(options, RESTORE, 'restore()');
    const opened = await this.#restorer.open(source);
    const { team, report } = await this.#restorer.rebuild(opened, options);
    return { chat: team, report, checkpoint: opened.checkpoint };
  }

  /** Goes on from a checkpoint for a number of rounds, as a new branch; what came after it stays as it is. */
  async continue(source: CheckpointSource, options: ContinueOptions): Promise<ContinueResult> {
    checkOptions(options, CONTINUE, 'continue()');
    return continueChat(this.#restorer, source, {
      options,
      change: (chat) => {
        const { prompt, rounds, stripSignal } = options;
        if (prompt === undefined) chat.reopen({ rounds, stripSignal });
        else chat.prompt(prompt, rounds);
      },
    });
  }

  /** Lists what restoring the captured working directories would change, by agent. Changes nothing. */
  async planFiles(source: CheckpointSource): Promise<Readonly<Record<string, WorkspacePlan>>> {
    const { state } = await this.#restorer.open(source);
    return planChatFiles(state, this.#restorer.registry);
  }

  /** Puts the captured working directories back, without the conversation. */
  async restoreFiles(
    source: CheckpointSource,
    options: ApplyOptions = {},
  ): Promise<Readonly<Record<string, WorkspaceReport>>> {
    return applyPlans(await this.planFiles(source), options);
  }
}

async function applyPlans(
  plans: Readonly<Record<string, WorkspacePlan>>,
  options: ApplyOptions = {},
): Promise<Record<string, WorkspaceReport>> {
  const reports: Record<string, WorkspaceReport> = {};
  for (const [name, plan] of Object.entries(plans)) reports[name] = await applyRestore(plan, options);
  return reports;
}

type Continuation = {
  readonly options: ContinueOptions & { readonly replayBranch?: string | undefined };
  readonly change?: (chat: GroupChat) => void;
  readonly edit?: Edit<ChatTypes>;
};

/** Goes on from a checkpoint, or in a branch that was begun, with a change. */
export async function continueChat(
  restorer: TeamRestorer<ChatTypes>,
  from: CheckpointSource | BegunBranch,
  { options, change, edit }: Continuation,
): Promise<ContinueResult> {
  const { manager, registry } = restorer;
  const file = isRecord(from) && 'file' in from ? from.file : undefined;
  let restoredFiles: ContinueResult['restoredFiles'] = {};
  const result = await restorer.continue(from, {
    options,
    change: async (chat, saved) => {
      change?.(chat);
      if (options.files === 'restore') restoredFiles = await applyPlans(await planChatFiles(saved, registry));
    },
    hold: async (chat, session, { origin, isChanged, metadata, ...code }) => {
      const isOver = chat.record.end !== null && edit === undefined;
      const conversation = () => describeConversation(chat);
      const subject = { manager, origin, file, sessionId: session.id, conversation };
      const files = isOver ? undefined : await openContinuationFiles(subject, options);
      const first = isChanged ? 'conversation_continued' : undefined;
      return holdChat(chat, { manager, session, files, first, edit, ...code }, { ...options, metadata });
    },
  });
  return { ...result, restoredFiles, report: report(addProblems(result.differences, describeLeft(restoredFiles))) };
}

type Capture = {
  readonly name: string;
  readonly workspace: WorkspaceState | null;
  readonly config: Exclude<CodeExecutionConfig, false>;
};

async function planChatFiles(state: ChatState, registry: AgentRegistry): Promise<Record<string, WorkspacePlan>> {
  const plans: Record<string, WorkspacePlan> = {};
  for (const { name, workspace, config } of findCaptures(state)) {
    const isAllowed = registry.allowsCode(config);
    if (!isAllowed && workspace === null) continue; // nothing would be written, and the folder is not ours to look at
    // Which folder is written to is not for a checkpoint to say.
    if (!isAllowed)
      throw new InvalidInputError(
        `The checkpoint asks to put files of "${name}" into "${config.workDir}", which is not allowed here. Allow the folder with allowCode of the registry (--allow-code at the command line).`,
        { details: { agent: name, workDir: config.workDir } },
      );
    const ignore = config.capture === false ? undefined : config.capture?.ignore;
    plans[name] = await planRestore(workspace ?? NOT_CAPTURED, config.workDir, ignore === undefined ? {} : { ignore });
  }
  return plans;
}

/** One for each folder: of agents that share one, whoever ran code last knows what it holds. */
function findCaptures({ agents, chat }: ChatState): Capture[] {
  const said = saidIn(chat);
  const lastRun = ({ name }: AgentState) =>
    said.findLastIndex((message) => message.name === name && message.code !== undefined);
  const byFolder = new Map<string, Capture>();
  for (const agent of Object.values(agents).toSorted((a, b) => lastRun(a) - lastRun(b))) {
    const { name, workspace, codeExecution: config } = agent;
    if (config === false) continue;
    const folder = resolve(config.workDir);
    if (workspace !== null || !byFolder.has(folder)) byFolder.set(folder, { name, workspace, config });
  }
  return [...byFolder.values()];
}

/** Lists the paths that a restore could not make what they were. */
function describeLeft(reports: Readonly<Record<string, WorkspaceReport>>): RestoreProblem[] {
  return Object.entries(reports).flatMap(([agent, { left, failed }]) => {
    const notes = left.map(({ path, note }) => `${path}: ${note}`);
    const problems = failed.map(({ path, problem }) => `${path}: ${problem}`);
    return [...notes, ...problems].map((problem) => ({ path: `$.agents.${agent}.workspace`, problem }));
  });
}
