import type { Checkpoint } from '../../core/checkpoint.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect-log.ts';
import type { RestoreProblem } from '../../manager/restore-report.ts';
import type { Session } from '../../manager/session.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { makeAgents } from '../agent/load-agents.ts';
import { type AgentOverride, StandardAgent } from '../agent/standard-agent.ts';
import { type ChatFingerprint, compareFingerprints, fingerprintChat } from '../chat/chat-fingerprint.ts';
import { Fleet } from './fleet.ts';
import { type FleetRunOptions, type FleetRunResult, holdFleet } from './fleet-run.ts';
import { type FleetSettings, type FleetState, parseFleetState } from './fleet-state.ts';

/** How a fleet is put back. */
export type RestoreFleetOptions = {
  /** When prompts, models or tools are not what they were: `fail` (default), `warn` (the report says so), or `accept`. */
  readonly onDrift?: 'fail' | 'warn' | 'accept';
  /** What to change on purpose; it does not count as drift. */
  readonly overrides?: {
    readonly agents?: Readonly<Record<string, AgentOverride>>;
    readonly settings?: Partial<FleetSettings>;
  };
};

/** What a restore did: `complete` only if everything is as it was. */
export type FleetRestoreReport = {
  readonly status: 'complete' | 'partial';
  readonly problems: readonly RestoreProblem[];
  /** How prompts, models and tools differ from what they were, apart from overrides. */
  readonly drift: readonly string[];
};

/** A fleet as it was at a checkpoint, with new agents. */
export type RestoredFleet = {
  readonly fleet: Fleet;
  readonly checkpoint: Checkpoint;
  readonly report: FleetRestoreReport;
};

/** How a fleet is continued. */
export type ContinueFleetOptions = RestoreFleetOptions &
  FleetRunOptions & {
    /** Another request: it becomes a user turn of the restored conversation. */
    readonly prompt?: string;
    /** So many rounds from here; default: as many as the checkpoint left, and as a prompt all that the settings allow. */
    readonly rounds?: number;
    /** The new branch; chosen if absent. */
    readonly branch?: string;
    readonly reason?: string;
    /** `recorded` and `frozen` use what was recorded after the checkpoint on its own branch. */
    readonly mode?: EffectMode;
    /** Goes on although something could not be put back. */
    readonly allowPartial?: boolean;
    /** Changes the restored fleet before it goes on. */
    readonly prepare?: (fleet: Fleet) => void;
  };

/** What came of a continuation. */
export type ContinueFleetResult = FleetRunResult & {
  readonly originId: string;
  readonly report: FleetRestoreReport;
};

type Opened = { readonly checkpoint: Checkpoint; readonly state: FleetState };

/** Rebuilds a fleet from a checkpoint, and continues from there as a new branch. */
export class FleetRestorer {
  readonly #checkpoints: CheckpointManager;
  readonly #registry: AgentRegistry;

  constructor({
    checkpoints,
    registry,
  }: { readonly checkpoints: CheckpointManager; readonly registry?: AgentRegistry }) {
    this.#checkpoints = checkpoints;
    this.#registry = registry ?? new AgentRegistry();
  }

  /** Puts a fleet back without going on. Nothing is written. */
  async restore(idOrPrefix: string, options: RestoreFleetOptions = {}): Promise<RestoredFleet> {
    const opened = await this.#open(idOrPrefix);
    return { ...this.#rebuild(opened, options), checkpoint: opened.checkpoint };
  }

  /** Goes on from a checkpoint as a new branch; what came after it stays as it is. */
  async continue(idOrPrefix: string, options: ContinueFleetOptions = {}): Promise<ContinueFleetResult> {
    const opened = await this.#open(idOrPrefix);
    const { fleet, report } = this.#rebuild(opened, options);
    if (report.problems.length > 0 && options.allowPartial !== true) {
      throw new InvalidInputError(
        `The fleet could not be put back as it was: ${report.problems.map(({ problem }) => problem).join(' ')} Register what is missing, or allow a partial restore.`,
        { details: { problems: report.problems } },
      );
    }
    if (options.prompt !== undefined) fleet.addPrompt(options.prompt);
    if (options.rounds !== undefined) fleet.grantRounds(options.rounds);
    options.prepare?.(fleet);
    const session = await this.#openBranch(opened.checkpoint, options);
    const first = options.prompt === undefined ? undefined : 'resumed';
    const metadata = { ...options.metadata, continuedFrom: opened.checkpoint.id };
    try {
      const hold = { checkpoints: this.#checkpoints, session, mode: options.mode, first } as const;
      const result = await holdFleet(fleet, hold, { ...options, metadata });
      return { ...result, originId: opened.checkpoint.id, report };
    } finally {
      await session.close();
    }
  }

  async #open(idOrPrefix: string): Promise<Opened> {
    const checkpoint = await this.#checkpoints.open(idOrPrefix);
    const state = parseFleetState(await this.#checkpoints.load(checkpoint.id));
    return { checkpoint, state };
  }

  #rebuild({ checkpoint, state }: Opened, options: RestoreFleetOptions): Omit<RestoredFleet, 'checkpoint'> {
    const agents = makeAgents(state, this.#registry);
    const fleet = new Fleet({ agents, registry: this.#registry, settings: state.fleet.settings });
    const problems = [...fleet.loadState(state), ...this.#findMissing(state)];
    const drift = this.#findDrift(fleet, (checkpoint.fingerprint ?? fingerprintChat(state)) as ChatFingerprint);
    if (drift.length > 0 && (options.onDrift ?? 'fail') === 'fail') throw driftError(drift);
    applyOverrides(fleet, options.overrides);
    const status = problems.length === 0 ? 'complete' : 'partial';
    return { fleet, report: { status, problems, drift: options.onDrift === 'accept' ? [] : drift } };
  }

  /** Classes and models that the checkpoint names and nobody registered. */
  #findMissing({ fleet, order, agents }: FleetState): RestoreProblem[] {
    const { orchestratorName, modelId } = fleet.settings;
    return [
      ...this.#findModel('$.fleet.settings', { name: orchestratorName, modelId }),
      ...order.flatMap((name) => {
        const { agentType, modelId: id } = agents[name] as AgentState;
        const path = `$.agents.${name}`;
        const isKnown = agentType === StandardAgent.name || this.#registry.maker(agentType) !== undefined;
        const problem = `The class "${agentType}" of "${name}" is not registered.`;
        return [...(isKnown ? [] : [{ path, problem }]), ...this.#findModel(path, { name, modelId: id })];
      }),
    ];
  }

  #findModel(path: string, { name, modelId }: { name: string; modelId: string | null }): RestoreProblem[] {
    if (modelId === null || this.#registry.hasModel(modelId)) return [];
    return [{ path, problem: `The model "${modelId}" of "${name}" is not registered.` }];
  }

  /** How the agents, with their tools as they are described today, differ from what they were. */
  #findDrift(fleet: Fleet, before: ChatFingerprint): string[] {
    const agents = fleet.agents.map((agent) => [
      agent.name,
      { ...agent.saveState(), tools: agent.currentTools(this.#registry) },
    ]);
    return compareFingerprints(before, fingerprintChat({ agents: Object.fromEntries(agents) }));
  }

  async #openBranch({ id, branch: origin }: Checkpoint, options: ContinueFleetOptions): Promise<Session> {
    const { mode, branch, reason } = options;
    const named = { ...(branch !== undefined && { branch }), ...(reason !== undefined && { reason }) };
    const forked = await this.#checkpoints.fork(id, named);
    return this.#checkpoints.session(forked.sessionId, {
      branch: forked.branch,
      ...(mode !== undefined && mode !== 'live' && { mode, replayBranch: origin }),
    });
  }
}

function driftError(drift: readonly string[]): InvalidInputError {
  return new InvalidInputError(
    `The code has changed since the checkpoint: ${drift.join(' ')} Continue with onDrift "warn" or "accept" if that is meant.`,
    { details: { drift } },
  );
}

function applyOverrides(fleet: Fleet, overrides: RestoreFleetOptions['overrides'] = {}): void {
  for (const [name, override] of Object.entries(overrides.agents ?? {})) {
    const agent = fleet.agent(name);
    if (agent === undefined) {
      const names = fleet.agents.map((known) => known.name).join(', ');
      throw new InvalidInputError(`There is no agent "${name}" in the fleet. There are: ${names}.`, {
        details: { agent: name },
      });
    }
    agent.configure(override);
  }
  if (overrides.settings !== undefined) fleet.change({ settings: { ...fleet.record.settings, ...overrides.settings } });
}
