import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { parseName } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { RestoreReport } from '../../manager/restore-report.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import { DEFAULT_RUNTIME, type RuntimeFlags } from '../agent/runtime-flags.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { UnrecordedEffects } from '../effect/effects.ts';
import { AutoSaves, type FailedSave } from './auto-saves.ts';
import { originalOf, trackChanges } from './track-changes.ts';

/** What an orchestrator looks after. */
export type OrchestratorOptions = {
  /** StandardAgents and whatever else has a `name`. */
  readonly agents: readonly NamedAgent[];
  readonly checkpointManager: CheckpointManager;
  /** Whether every change of an agent is saved; default false. */
  readonly autoCheckpoint?: boolean;
  /** The flags of agents that have none of their own, by name. */
  readonly runtime?: Readonly<Record<string, Partial<RuntimeFlags>>>;
  /** What sessions of agents without an id are called: this and the agent's name. Default: the name alone. */
  readonly sessionPrefix?: string;
  readonly registry?: AgentRegistry;
  /** Told the words of agents with the `stream` flag, as they come. */
  readonly onText?: (agent: string, delta: string) => void;
  /** Told when an agent could not be saved. It is tried again with its next change, and by `flush`. */
  readonly onSaveFailed?: (failed: FailedSave) => void;
};

/** Anything with a name, and perhaps a way to hear of its changes. */
export type NamedAgent = object & { readonly name: string };

type Watchable = { onChange(listener: () => void): () => void };

/** Looks after agents: saves each when it changes, and brings all back. */
export class Orchestrator {
  readonly #options: OrchestratorOptions;
  readonly #agents = new Map<string, NamedAgent>();
  readonly #saves: AutoSaves;
  readonly #failed: FailedSave[] = [];
  readonly #unwatch: (() => void)[] = [];
  readonly #registry: AgentRegistry;
  #isClosed = false;

  constructor(options: OrchestratorOptions) {
    this.#options = options;
    this.#registry = options.registry ?? new AgentRegistry();
    this.#saves = new AutoSaves(options.checkpointManager, (failed) => {
      this.#failed.push(failed);
      options.onSaveFailed?.(failed);
    });
    for (const agent of options.agents) this.#add(agent);
  }

  get checkpointManager(): CheckpointManager {
    return this.#options.checkpointManager;
  }

  get agents(): readonly NamedAgent[] {
    return [...this.#agents.values()];
  }

  agent(name: string): NamedAgent | undefined {
    return this.#agents.get(name);
  }

  /** Saves that failed, so far. */
  get failedSaves(): readonly FailedSave[] {
    return [...this.#failed];
  }

  /** Whether an agent streams, is remembered, and is saved by itself. */
  runtimeOf(name: string): RuntimeFlags {
    const agent = this.#open(name);
    if (agent instanceof StandardAgent) return agent.saveState().runtime;
    const own = 'runtime' in agent ? (agent.runtime as Partial<RuntimeFlags>) : undefined;
    return { ...DEFAULT_RUNTIME, ...own, ...this.#options.runtime?.[name] };
  }

  /** Looks after a plain object, too: change it through what this answers, and each change is saved. */
  track<Agent extends NamedAgent>(agent: Agent): Agent {
    if (this.#agents.get(agent.name) !== agent) this.#add(agent);
    return trackChanges(agent, () => this.changed(agent));
  }

  /** Says that an agent changed, where that cannot be noticed: a private field, a map. */
  changed(agent: NamedAgent): void {
    const original = originalOf(agent);
    if (this.#agents.get(original.name) !== original) {
      throw new InvalidInputError(`"${original.name}" is not one of the orchestrator's agents. Add it, or track it.`, {
        details: { agent: original.name },
      });
    }
    if (this.#isClosed || this.#options.autoCheckpoint !== true) return;
    if (this.runtimeOf(original.name).checkpoint) this.#saves.mark(original);
  }

  /** Lets an agent answer a message. Its words are streamed if its flags say so, and what changes is saved. */
  async reply(name: string, message: string, options: { readonly signal?: AbortSignal } = {}): Promise<ChatMessage> {
    const agent = this.#open(name);
    if (!(agent instanceof StandardAgent))
      throw new InvalidInputError(`"${name}" is not a StandardAgent, so it cannot be asked to reply.`);
    const { onText } = this.#options;
    agent.receive({ name: PERSON, content: message }, PERSON);
    const outcome = await agent.reply({
      effects: new UnrecordedEffects(),
      registry: this.#registry,
      partner: PERSON,
      ask: async () => '',
      signal: options.signal,
      onText: onText && ((delta) => onText(name, delta)),
    });
    return outcome.message ?? { name, content: '' };
  }

  /** Brings every agent back as it was last saved; answers what each restore did. Agents that were never saved stay as they are. */
  async restore(): Promise<Readonly<Record<string, RestoreReport>>> {
    const { checkpointManager } = this.#options;
    const reports: Record<string, RestoreReport> = {};
    for (const [name, agent] of this.#agents) {
      const latest = await checkpointManager.latest({ sessionId: sessionOf(agent) });
      if (latest === undefined) continue;
      await checkpointManager.restore(latest.id, { into: agent });
      const report = checkpointManager.reportOf(agent);
      if (report !== undefined) reports[name] = report;
    }
    return reports;
  }

  /** Saves what changed now, and waits until everything is stored; throws if something cannot be. */
  async flush(): Promise<void> {
    await this.#saves.flush();
  }

  /** Stops watching, and waits until everything is stored. Idempotent. The manager stays open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stop of this.#unwatch.splice(0)) stop();
    await this.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #add(agent: NamedAgent): void {
    const name = parseName(agent.name, "An agent's name");
    if (this.#agents.has(name))
      throw new InvalidInputError(`Two agents have the name "${name}". Give one of them another.`);
    this.#agents.set(name, agent);
    if (agent instanceof StandardAgent) this.#registry.addAgent(agent);
    nameSession(agent, `${this.#options.sessionPrefix ?? ''}${name}`);
    handManager(agent, this.#options.checkpointManager);
    if (this.#options.autoCheckpoint === true && isWatchable(agent))
      this.#unwatch.push(agent.onChange(() => this.changed(agent)));
  }

  #open(name: string): NamedAgent {
    const agent = this.#agents.get(name);
    if (agent !== undefined) return agent;
    throw new NotFoundError(`There is no agent "${name}". There are: ${[...this.#agents.keys()].join(', ')}.`, {
      details: { agent: name },
    });
  }
}

/** Gives an agent an id if it has none, so that its own saves and those of the orchestrator are in one session. */
function nameSession(agent: NamedAgent, sessionId: string): void {
  if (idOf(agent) !== undefined) return;
  Object.defineProperty(agent, 'agentId', { value: sessionId, configurable: true });
}

function sessionOf(agent: NamedAgent): string {
  return idOf(agent) ?? agent.name;
}

function idOf(agent: NamedAgent): string | undefined {
  const { agentId, id }: { agentId?: unknown; id?: unknown } = agent as object;
  const given = agentId ?? id;
  return typeof given === 'string' && given !== '' ? given : undefined;
}

/** An agent with an empty `checkpointManager` gets this one, to save itself before something risky. */
function handManager(agent: NamedAgent, manager: CheckpointManager): void {
  if (!('checkpointManager' in agent) || (agent.checkpointManager ?? undefined) !== undefined) return;
  Object.defineProperty(agent, 'checkpointManager', { value: manager, configurable: true, writable: true });
}

function isWatchable(agent: object): agent is Watchable {
  return 'onChange' in agent && typeof agent.onChange === 'function';
}
