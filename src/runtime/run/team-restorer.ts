import { isDeepStrictEqual } from 'node:util';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions, filledString, isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { ClassCodec } from '../../core/value/class-codec.ts';
import { COMPARES_CODE } from '../../manager/agent/agent.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/step.ts';
import type { Revision } from '../../manager/revision/revision.ts';
import type { Session } from '../../manager/session/session.ts';
import { type AgentOverride, checkOverride } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { type AgentStates, makeAgents } from '../agent/load-agents.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { AgentTeam } from './agent-team.ts';
import { readCheckpointFile } from './checkpoint-file.ts';
import {
  addDifferences,
  addProblems,
  type Difference,
  type DifferenceOptions,
  type DifferenceReport,
  findLosses,
  refuse,
  report,
  tellRestored,
} from './differences.ts';
import { PARTS } from './run-options.ts';
import { type SeatPlace, withSeat } from './seat.ts';
import {
  codeOf,
  findMissingModels,
  noteRestored,
  readCode,
  type TeamKind,
  type TeamTypes,
  withAgents,
} from './team.ts';
import {
  compareTeams,
  digestPrompt,
  factsWithCode,
  leaveFields,
  type TeamFacts,
  type TeamFingerprint,
} from './team-facts.ts';

/** A checkpoint: by its id or the beginning of it, a revision of a session, or the file it was written to. */
export type CheckpointSource = Revision | { readonly file: string };

/** How a team is put back. */
export type RestoreOptions<Settings> = DifferenceOptions & {
  /** What to change on purpose; it does not count as a difference. */
  readonly overrides?: {
    readonly agents?: Readonly<Record<string, AgentOverride>>;
    readonly settings?: Partial<Settings>;
  };
};

/** In which branch a team goes on. */
export type BranchOptions = {
  /** The new branch; chosen if absent. */
  readonly branch?: string;
  readonly reason?: string;
  /** `recorded` and `frozen` use what was recorded after the checkpoint, on its branch or, of an edited one, on those it came from. */
  readonly mode?: EffectMode;
};

/** Where checkpoints come from, and the code they need. */
export type RestorerParts = {
  readonly manager: CheckpointManager;
  readonly registry?: AgentRegistry;
  /** Codecs for classes in the states of files: those that the manager was made with. */
  readonly classes?: readonly ClassCodec[];
};

/** A branch that an earlier run began at a checkpoint. */
export type BegunBranch = { readonly origin: Checkpoint; readonly branch: string };

/** A checkpoint that was opened, and whether this storage has it. */
export type Opened<State> = { readonly checkpoint: Checkpoint; readonly state: State; readonly isStored: boolean };

/** A team as it was at a checkpoint, with new agents. */
export type Rebuilt<Subject> = {
  readonly team: Subject;
  readonly report: DifferenceReport;
  /** The code that its checkpoints name. */
  readonly facts: TeamFacts;
};

type Continuing<Of extends TeamTypes, Result> = {
  readonly options: RestoreOptions<Of['settings']> &
    BranchOptions & {
      readonly metadata?: Readonly<Record<string, unknown>>;
      readonly prepare?: (team: Of['team']) => void | Promise<void>;
      /** The branch whose recordings are used; default: those that the checkpoint came from. */
      readonly replayBranch?: string | undefined;
    };
  /** Lets the team go on as the caller says. */
  readonly change: (team: Of['team'], saved: Of['state']) => Promise<void>;
  readonly hold: (team: Of['team'], session: Session, continued: Continued) => Promise<Result>;
};

/** A team that goes on from a checkpoint, and whether it was changed before. */
export type Continued = {
  /** What the branch goes on from. */
  readonly origin: Checkpoint;
  readonly facts: TeamFacts;
  readonly differences: readonly Difference[];
  readonly isChanged: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
};

/** Rebuilds teams from checkpoints, and opens the branches in which they go on. */
export class TeamRestorer<Of extends TeamTypes> {
  readonly manager: CheckpointManager;
  readonly registry: AgentRegistry;
  readonly #kind: TeamKind<Of>;
  readonly #classes: readonly ClassCodec[] | undefined;

  constructor(kind: TeamKind<Of>, parts: RestorerParts) {
    checkOptions(parts, PARTS, 'a restorer');
    const { manager, registry, classes } = parts;
    this.#kind = kind;
    this.manager = manager;
    this.registry = registry ?? new AgentRegistry();
    this.#classes = classes;
  }

  /** Reads a checkpoint of this kind. */
  async open(source: CheckpointSource): Promise<Opened<Of['state']>> {
    if (!isRecord(source) || 'sessionId' in source) return this.#openStored(source);
    checkOptions(source, { file: { required: filledString } }, 'a checkpoint that is named by no id');
    const { checkpoint, state } = await readCheckpointFile(source.file, this.#classes);
    if ((await this.manager.get(checkpoint.id)) !== undefined) return this.#openStored(checkpoint.id);
    return { checkpoint, state: this.#kind.parse(state), isStored: false };
  }

  async #openStored(revision: Revision): Promise<Opened<Of['state']>> {
    const checkpoint = await this.manager.open(revision);
    return { checkpoint, state: this.#kind.parse(await this.manager.load(checkpoint.id)), isStored: true };
  }

  /** Makes the team of a checkpoint. Nothing is written. */
  async rebuild(
    { checkpoint, state }: Opened<Of['state']>,
    options: RestoreOptions<Of['settings']>,
  ): Promise<Rebuilt<Of['team']>> {
    const { onDifference: decision = 'fail' } = options;
    const fingerprint = await readCode(this.manager, checkpoint, state);
    const make = () => this.#kind.make(makeAgents(state, this.registry), this.registry, state);
    let team = make();
    const made = team.saveState();
    const problems = team.loadState(state);
    const code = codeOf(team);
    const now = factsWithCode(fingerprint, { team, made, code });
    const changed = [...compareTeams(fingerprint, now, 'registered'), ...findCutPrompts(state, fingerprint)];
    if (decision === 'accept') {
      const adopted = leaveFields(this.#kind.adopt(state, withGiven(team, code)), changed);
      team = make();
      team.loadState(adopted);
    }
    this.#override(team, options.overrides);
    const asked = changed.filter(({ path }) => !isOverridden(path, options.overrides?.agents));
    const found = addDifferences(asked, this.#findMissing(team));
    refuse(addProblems(found, findLosses(problems)), decision, this.#kind.noun);
    const differences = addProblems(found, problems);
    await tellRestored(this.manager, { checkpoint, restored: team, differences });
    noteRestored(team, checkpoint.id);
    return { team, report: report(differences), facts: decision === 'accept' ? now : fingerprint };
  }

  /** Code that nobody registered. */
  #findMissing(team: Of['team']): Difference[] {
    const state = team.saveState();
    const classes = team.agents.flatMap((agent) => this.#findOtherClass(agent, state.agents[agent.name] as AgentState));
    const models = findMissingModels(state, this.registry);
    return [...classes, ...models, ...this.#kind.findMissing(state, this.registry)];
  }

  #findOtherClass({ name, constructor: made }: StandardAgent, { agentType }: AgentState): Difference[] {
    if (agentType === made.name) return [];
    if (this.registry.maker(agentType) === undefined) {
      const text = `The class "${agentType}" of "${name}" is not registered.`;
      return [{ path: `$.agents.${name}`, kind: 'missing', text }];
    }
    const text = `"${name}" was of the class "${agentType}", and what is registered for it makes a ${made.name}.`;
    return [{ path: `$.agents.${name}.class`, kind: 'changed', text }];
  }

  #override(
    team: Of['team'],
    { agents = {}, settings }: NonNullable<RestoreOptions<Of['settings']>['overrides']> = {},
  ): void {
    for (const [name, override] of Object.entries(agents)) {
      const agent = team.openAgent(name);
      checkOverride(override, `overrides.agents.${name}`);
      agent.configure(override);
    }
    if (settings !== undefined) this.#kind.override(team, settings);
  }

  /** Goes on from a checkpoint as a new branch, or where a branch was left; what came after the checkpoint stays as it is. */
  async continue<Result>(
    from: CheckpointSource | BegunBranch,
    continuing: Continuing<Of, Result>,
  ): Promise<Result & { readonly originId: string; readonly report: DifferenceReport }> {
    if (isRecord(from) && 'origin' in from) return this.#resume(from, continuing);
    const opened = await this.open(from);
    const hold = await this.#prepare(opened, opened.checkpoint, continuing);
    return withSeat(this.manager, await this.#openBranch(opened, continuing.options), hold);
  }

  async #resume<Result>({ origin, branch }: BegunBranch, continuing: Continuing<Of, Result>) {
    return withSeat(this.manager, { sessionId: origin.sessionId, branch }, async (session) => {
      const opened = await this.open(session.head?.id ?? origin.id);
      const hold = await this.#prepare(opened, origin, continuing);
      return hold(session);
    });
  }

  async #prepare<Result>(
    opened: Opened<Of['state']>,
    origin: Checkpoint,
    { options, change, hold }: Continuing<Of, Result>,
  ) {
    const { team, report: found, facts } = await this.rebuild(opened, options);
    await change(team, opened.state);
    await options.prepare?.(team);
    const { id, sessionId } = origin;
    const { works: _, ...before } = opened.state;
    const continued = {
      origin,
      facts,
      differences: found.differences,
      isChanged: !isDeepStrictEqual(team.saveState(), before),
      metadata: { ...options.metadata, continuedFrom: id, continuedFromSession: sessionId },
    };
    return async (session: Session) => {
      const result = await withAgents(team, session, () => hold(team, session, continued));
      return { ...result, originId: id, report: found };
    };
  }

  /** Begins the branch in which a team goes on from a checkpoint; what came after it stays as it is. */
  async #openBranch(
    opened: Opened<Of['state']>,
    { mode = 'live', branch, reason, replayBranch }: Continuing<Of, unknown>['options'],
  ): Promise<SeatPlace> {
    const { checkpoint, isStored } = opened;
    if (!isStored) return this.#adoptFile(opened, { mode, reason });
    const named = { ...(branch !== undefined && { branch }), ...(reason !== undefined && { reason }) };
    const forked = await this.manager.fork(checkpoint.id, named);
    return {
      sessionId: forked.sessionId,
      branch: forked.branch,
      ...(mode !== 'live' && { mode, replayBranch }),
    };
  }

  /** A checkpoint from a file begins a session of its own. */
  async #adoptFile(
    { checkpoint, state }: Opened<Of['state']>,
    { mode, reason }: { readonly mode: EffectMode; readonly reason: string | undefined },
  ): Promise<SeatPlace> {
    if (mode !== 'live') {
      throw new InvalidInputError(
        `The file of checkpoint ${checkpoint.id} holds no recorded calls, and this storage has none of them: it cannot be continued in ${mode} mode. Use the storage that the ${this.#kind.noun} was saved to.`,
        { details: { id: checkpoint.id, mode } },
      );
    }
    const said = { note: `From a file of checkpoint ${checkpoint.id}.`, ...(reason !== undefined && { reason }) };
    for (let count = 1; ; count++) {
      const session = await this.manager.session(`from-${checkpoint.id}${count === 1 ? '' : `-${count}`}`);
      if (session.head === undefined) {
        const { userId } = checkpoint;
        await session.save(state, { trigger: 'imported', ...said, ...(userId !== undefined && { userId }) });
        await session.close();
        return { sessionId: session.id };
      }
      await session.close();
    }
  }
}

/** What the makers of agents give them, in place of what was saved. */
function withGiven<State extends AgentStates>(team: AgentTeam, code: State): State {
  const agents = team.agents.map((agent) => {
    return [agent.name, agent[COMPARES_CODE](code.agents[agent.name], true).taken];
  });
  return { ...code, agents: Object.fromEntries(agents) };
}

/** A prompt that is not the one that was in force lost something on the way. */
function findCutPrompts({ agents }: AgentStates, { prompts }: TeamFingerprint): Difference[] {
  return Object.entries(agents).flatMap(([name, agent]) => {
    const known = prompts[name];
    if (known === undefined || known === digestPrompt(agent)) return [];
    const text = `The prompt of "${name}" changed, or had secrets in it.`;
    return [{ path: `$.agents.${name}.prompt`, kind: 'changed', text }];
  });
}

function isOverridden(path: string, overrides: Readonly<Record<string, AgentOverride>> = {}): boolean {
  return Object.entries(overrides).some(([name, { systemMessage, llmConfig, modelId }]) => {
    const isOtherModel = llmConfig !== undefined || modelId !== undefined;
    return (
      (path === `$.agents.${name}.prompt` && systemMessage !== undefined) ||
      (path === `$.agents.${name}.model` && isOtherModel)
    );
  });
}
