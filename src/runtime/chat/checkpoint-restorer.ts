import { isDeepStrictEqual } from 'node:util';
import type { Checkpoint } from '../../core/checkpoint.ts';
import type { ClassCodec } from '../../core/class-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect-log.ts';
import type { RestoreProblem } from '../../manager/restore-report.ts';
import type { Session } from '../../manager/session.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { makeAgents } from '../agent/load-agents.ts';
import { type AgentOverride, StandardAgent } from '../agent/standard-agent.ts';
import { openContinuationFiles } from '../run/files/continuation-files.ts';
import { DEFAULT_ROOT, type FilesOptions, type SessionFiles } from '../run/files/session-files.ts';
import { type ApplyOptions, applyRestore } from '../workspace/apply-restore.ts';
import type { WorkspacePlan, WorkspaceReport } from '../workspace/workspace-plan.ts';
import { checkEndRules } from './chat-end.ts';
import { describeLeft, planChatFiles } from './chat-files.ts';
import { type ChatFingerprint, compareFingerprints, fingerprintChat, withoutOverridden } from './chat-fingerprint.ts';
import { type ChatRunOptions, type ChatRunResult, holdChat } from './chat-run.ts';
import { type ChatSettings, type ChatState, parseChatState } from './chat-state.ts';
import { readCheckpointFile } from './checkpoint-file.ts';
import { GroupChat } from './group-chat.ts';

/** A checkpoint: by its id, a unique prefix of it, or the file it was written to. */
export type CheckpointSource = string | { readonly file: string };

/** How a conversation is put back. */
export type RestoreChatOptions = {
  /** When prompts, models or tools are not what they were: `fail` (default), `warn` (the report says so), or `accept`. */
  readonly onDrift?: 'fail' | 'warn' | 'accept';
  /** What to change on purpose; it does not count as drift. */
  readonly overrides?: {
    readonly agents?: Readonly<Record<string, AgentOverride>>;
    readonly settings?: Partial<ChatSettings>;
  };
};

/** What a restore did: `complete` only if everything is as it was. */
export type ChatRestoreReport = {
  readonly status: 'complete' | 'partial';
  readonly problems: readonly RestoreProblem[];
  /** How prompts, models and tools differ from what they were, apart from overrides. */
  readonly drift: readonly string[];
};

/** A conversation as it was at a checkpoint, with new agents. */
export type RestoredChat = {
  readonly chat: GroupChat;
  readonly checkpoint: Checkpoint;
  readonly report: ChatRestoreReport;
};

/** How a conversation is continued. */
export type ContinueOptions = RestoreChatOptions &
  ChatRunOptions &
  FilesOptions & {
    /** Exactly so many messages are appended, unless the conversation ends before. */
    readonly rounds: number;
    /** The new branch; chosen if absent. */
    readonly branch?: string;
    readonly reason?: string;
    /** `recorded` and `frozen` use what was recorded after the checkpoint on its own branch. */
    readonly mode?: EffectMode;
    /** Said as the person before the conversation goes on, also if it had ended: the resumed request. */
    readonly prompt?: string;
    /** Takes the words that ended the conversation out of its last message. */
    readonly stripSignal?: boolean;
    /** Goes on although something could not be put back. */
    readonly allowPartial?: boolean;
    /** Where the folder of the continuation goes, instead of into the folder of its session. */
    readonly outputRoot?: string;
    /** `restore` puts the captured working directories back, too; default `keep`. */
    readonly files?: 'keep' | 'restore';
    /** Changes the restored conversation before it goes on. */
    readonly prepare?: (chat: GroupChat) => void;
  };

/** What came of a continuation. */
export type ContinueResult = ChatRunResult & {
  readonly originId: string;
  readonly report: ChatRestoreReport;
};

/** Where checkpoints come from, and the code they need. */
export type RestorerParts = {
  readonly checkpoints: CheckpointManager;
  readonly registry?: AgentRegistry;
  /** Codecs for classes in the states of files: those that the manager was made with. */
  readonly classes?: readonly ClassCodec[];
};

type Opened = { readonly checkpoint: Checkpoint; readonly state: ChatState; readonly isStored: boolean };

/** Rebuilds agents, group and conversation from a checkpoint, and continues from there as a new branch. */
export class CheckpointRestorer {
  readonly #checkpoints: CheckpointManager;
  readonly #registry: AgentRegistry;
  readonly #classes: readonly ClassCodec[] | undefined;

  constructor({ checkpoints, registry, classes }: RestorerParts) {
    this.#checkpoints = checkpoints;
    this.#registry = registry ?? new AgentRegistry();
    this.#classes = classes;
  }

  /** Puts a conversation back without going on. Nothing is written. */
  async restore(source: CheckpointSource, options: RestoreChatOptions = {}): Promise<RestoredChat> {
    const opened = await this.#open(source);
    return { ...this.#rebuild(opened, options), checkpoint: opened.checkpoint };
  }

  /** Goes on from a checkpoint for a number of rounds, as a new branch; what came after it stays as it is. */
  async continue(source: CheckpointSource, options: ContinueOptions): Promise<ContinueResult> {
    const opened = await this.#open(source);
    const { chat, report } = this.#rebuild(opened, options);
    if (report.problems.length > 0 && options.allowPartial !== true) {
      throw new InvalidInputError(
        `The conversation could not be put back as it was: ${report.problems.map(({ problem }) => problem).join(' ')} Register what is missing, or allow a partial restore.`,
        { details: { problems: report.problems } },
      );
    }
    if (options.prompt === undefined) chat.reopen(options);
    else chat.prompt(options.prompt, options.rounds);
    options.prepare?.(chat);
    const left = options.files === 'restore' ? describeLeft(await this.restoreFiles(source)) : [];
    const session = await this.#openBranch(opened, options);
    try {
      const metadata = { ...options.metadata, ...originOf(opened) };
      const files =
        chat.record.end === null
          ? await this.#openFiles(source, { opened, sessionId: session.id }, options)
          : undefined;
      const isChanged = !isDeepStrictEqual(chat.saveState(), opened.state);
      const result = await holdChat(chat, session, { ...options, metadata, files, isChanged });
      return { ...result, originId: opened.checkpoint.id, report: addProblems(report, left) };
    } finally {
      await session.close();
    }
  }

  /** Lists what restoring the captured working directories would change, by agent. Changes nothing. */
  async planFiles(source: CheckpointSource): Promise<Readonly<Record<string, WorkspacePlan>>> {
    const { state } = await this.#open(source);
    return planChatFiles(state, this.#registry);
  }

  /** Puts the captured working directories back, without the conversation. */
  async restoreFiles(
    source: CheckpointSource,
    options: ApplyOptions = {},
  ): Promise<Readonly<Record<string, WorkspaceReport>>> {
    const reports: Record<string, WorkspaceReport> = {};
    for (const [name, plan] of Object.entries(await this.planFiles(source)))
      reports[name] = await applyRestore(plan, options);
    return reports;
  }

  async #open(source: CheckpointSource): Promise<Opened> {
    if (typeof source === 'string') return this.#openStored(source);
    const { checkpoint, state } = await readCheckpointFile(source.file, this.#classes);
    if ((await this.#checkpoints.get(checkpoint.id)) !== undefined) return this.#openStored(checkpoint.id);
    return { checkpoint, state: parseChatState(state), isStored: false };
  }

  async #openStored(idOrPrefix: string): Promise<Opened> {
    const checkpoint = await this.#checkpoints.open(idOrPrefix);
    const state = parseChatState(await this.#checkpoints.load(checkpoint.id));
    return { checkpoint, state, isStored: true };
  }

  #rebuild({ checkpoint, state }: Opened, options: RestoreChatOptions): Omit<RestoredChat, 'checkpoint'> {
    const agents = makeAgents(state, this.#registry);
    const chat = new GroupChat({ agents, registry: this.#registry });
    const lacking = chat.loadState(state);
    const before = (checkpoint.fingerprint ?? fingerprintChat(state)) as ChatFingerprint;
    const drift = this.#findDrift(chat, withoutOverridden(before, options.overrides?.agents));
    if (drift.length > 0 && (options.onDrift ?? 'fail') === 'fail') throw driftError(drift);
    applyOverrides(chat, options.overrides);
    const problems = [...lacking, ...this.#findMissing(chat.saveState())];
    const status = problems.length === 0 ? 'complete' : 'partial';
    return { chat, report: { status, problems, drift: options.onDrift === 'accept' ? [] : drift } };
  }

  /** Code that the conversation names and nobody registered. */
  #findMissing({ chat: { settings }, order, agents }: ChatState): RestoreProblem[] {
    const ofAgents = order.flatMap((name) => {
      const { agentType, modelId } = agents[name] as AgentState;
      const path = `$.agents.${name}`;
      const isPlain = agentType === StandardAgent.name || this.#registry.maker(agentType) !== undefined;
      const hasModel = modelId === null || this.#registry.hasModel(modelId);
      return [
        ...(isPlain ? [] : [{ path, problem: `The class "${agentType}" of "${name}" is not registered.` }]),
        ...(hasModel ? [] : [{ path, problem: `The model "${modelId}" of "${name}" is not registered.` }]),
      ];
    });
    return [...ofAgents, ...findMissingSettings(settings, this.#registry)];
  }

  /** How the agents, with their tools as they are described today, differ from what they were. */
  #findDrift(chat: GroupChat, before: ChatFingerprint): string[] {
    const agents = chat.agents.map((agent) => [
      agent.name,
      { ...agent.saveState(), tools: agent.currentTools(this.#registry) },
    ]);
    return compareFingerprints(before, fingerprintChat({ agents: Object.fromEntries(agents) }));
  }

  async #openBranch({ checkpoint, state, isStored }: Opened, options: ContinueOptions): Promise<Session> {
    const { mode, branch, reason } = options;
    if (!isStored) return this.#adopt({ checkpoint, state }, options);
    const named = { ...(branch !== undefined && { branch }), ...(reason !== undefined && { reason }) };
    const forked = await this.#checkpoints.fork(checkpoint.id, named);
    return this.#checkpoints.session(forked.sessionId, {
      branch: forked.branch,
      ...(mode !== undefined && mode !== 'live' && { mode, replayBranch: checkpoint.branch }),
    });
  }

  async #openFiles(
    source: CheckpointSource,
    { opened, sessionId }: { opened: Opened; sessionId: string },
    { logs, checkpointFiles = logs !== undefined, outputRoot, rounds }: ContinueOptions,
  ): Promise<SessionFiles | undefined> {
    if (logs === false && outputRoot === undefined) return undefined;
    return openContinuationFiles({
      checkpoints: this.#checkpoints,
      origin: opened.checkpoint,
      file: typeof source === 'string' ? undefined : source.file,
      sessionId,
      rounds,
      root: logs === false ? '.' : (logs ?? DEFAULT_ROOT),
      outputRoot,
      hasStates: checkpointFiles,
    });
  }

  /** A checkpoint from a file begins a session of its own. */
  async #adopt(
    { checkpoint, state }: Omit<Opened, 'isStored'>,
    { mode = 'live', reason }: ContinueOptions,
  ): Promise<Session> {
    if (mode !== 'live') {
      throw new InvalidInputError(
        `The file of checkpoint ${checkpoint.id} holds no recorded calls, and this storage has none of them: it cannot be continued in ${mode} mode. Use the storage that the conversation was saved to.`,
        { details: { id: checkpoint.id, mode } },
      );
    }
    const said = { note: `From a file of checkpoint ${checkpoint.id}.`, ...(reason !== undefined && { reason }) };
    for (let count = 1; ; count++) {
      const session = await this.#checkpoints.session(`from-${checkpoint.id}${count === 1 ? '' : `-${count}`}`);
      if (session.head === undefined) {
        const { userId } = checkpoint;
        await session.save(state, { trigger: 'imported', ...said, ...(userId !== undefined && { userId }) });
        return session;
      }
      await session.close();
    }
  }
}

function findMissingSettings(settings: ChatSettings, registry: AgentRegistry): RestoreProblem[] {
  const { speakerSelection, selectorModelId, end } = settings;
  const selector = typeof speakerSelection === 'object' ? speakerSelection.selector : undefined;
  const names = [
    { what: 'predicate', name: end.predicate, isKnown: (name: string) => registry.predicate(name) !== undefined },
    { what: 'selector', name: selector, isKnown: (name: string) => registry.selector(name) !== undefined },
    { what: 'model', name: selectorModelId ?? undefined, isKnown: (name: string) => registry.hasModel(name) },
  ];
  return names.flatMap(({ what, name, isKnown }) =>
    name === undefined || isKnown(name)
      ? []
      : [{ path: '$.chat.settings', problem: `The ${what} "${name}" of the group is not registered.` }],
  );
}

function driftError(drift: readonly string[]): InvalidInputError {
  return new InvalidInputError(
    `The conversation is not what it was at the checkpoint: ${drift.join(' ')} Continue with onDrift "warn" or "accept" if that is meant.`,
    { details: { drift } },
  );
}

function applyOverrides(chat: GroupChat, overrides: RestoreChatOptions['overrides'] = {}): void {
  for (const [name, override] of Object.entries(overrides.agents ?? {})) openAgent(chat, name).configure(override);
  const { settings } = overrides;
  if (settings === undefined) return;
  if (settings.end !== undefined) checkEndRules(settings.end);
  chat.change({
    settings: { ...chat.record.settings, ...settings },
    ...(settings.seed !== undefined && { randomState: settings.seed }),
  });
}

function addProblems(report: ChatRestoreReport, more: readonly RestoreProblem[]): ChatRestoreReport {
  return more.length === 0 ? report : { ...report, status: 'partial', problems: [...report.problems, ...more] };
}

function openAgent(chat: GroupChat, name: string): StandardAgent {
  const agent = chat.agent(name);
  if (agent !== undefined) return agent;
  const names = chat.agents.map((known) => known.name).join(', ');
  throw new InvalidInputError(`There is no agent "${name}" in the conversation. There are: ${names}.`, {
    details: { agent: name },
  });
}

function originOf({ checkpoint }: Opened): Record<string, unknown> {
  return { continuedFrom: checkpoint.id, continuedFromSession: checkpoint.sessionId };
}
