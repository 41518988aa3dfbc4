import { ClosedError, ConflictError, InvalidInputError, NotFoundError, UnsupportedError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, checkValue, type OptionChecks, unknownKey } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { name, parseName } from '../../core/record/id.ts';
import type { RestoreOptions } from '../../manager/agent/agent-saving.ts';
import { captureAgent } from '../../manager/agent/capture-agent.ts';
import { manager, onDifference } from '../../manager/call-options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { RestoreReport } from '../../manager/engine/loading.ts';
import { madeFields } from './agent-fields.ts';
import { runtimeFlags } from './agent-options.ts';
import { AgentRegistry, registry } from './agent-registry.ts';
import { DEFAULT_RUNTIME, type RuntimeFlags } from './agent-state.ts';
import { AutoSaves, type FailedSave } from './auto-saves.ts';
import type { ChatMessage } from './chat-message.ts';
import { findLatest, give, idOf, isUnset, type NamedAgent, named, nameOf, sessionOf } from './named-agent.ts';
import { StandardAgent } from './standard-agent.ts';

/** What an orchestrator looks after. */
export type OrchestratorOptions = {
  /** StandardAgents, and any other objects with a `name` or an id. */
  readonly agents: readonly NamedAgent[];
  readonly checkpointManager: CheckpointManager;
  /** Whether agents are saved when they change; default false. */
  readonly autoCheckpoint?: boolean;
  /** The flags of agents that have none of their own, by name. */
  readonly runtime?: Readonly<Record<string, Partial<RuntimeFlags>>>;
  /** What sessions of agents without an id are called: this and the agent's name. Default: the name alone. */
  readonly sessionPrefix?: string;
  /** Whose checkpoints these are, unless an agent has a `userId` of its own. */
  readonly userId?: string;
  readonly registry?: AgentRegistry;
  /** Told the words of agents with the `stream` flag, as they come. */
  readonly onText?: (agent: string, delta: string) => void;
  /** Told when an agent could not be saved. It is tried again, and by `flush`. What it throws goes to the manager's `onHandlerError`. */
  readonly onSaveFailed?: (failed: FailedSave) => void;
};

const OPTIONS: OptionChecks<OrchestratorOptions> = {
  agents: { required: is.listOf(named) },
  checkpointManager: { required: manager },
  autoCheckpoint: is.flag,
  runtime: is.recordOf(runtimeFlags),
  sessionPrefix: is.string,
  userId: name,
  registry,
  onText: is.callback,
  onSaveFailed: is.callback,
};

const REPLY: OptionChecks<{ readonly signal?: AbortSignal }> = { signal: is.signal };
type OrchestratorRestore = Pick<RestoreOptions, 'allowOther' | 'onDifference'>;
const RESTORE: OptionChecks<OrchestratorRestore> = { allowOther: is.flag, onDifference };

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
    checkOptions(options, OPTIONS, 'new Orchestrator()');
    const known = options.agents.map(nameOf);
    for (const agent of Object.keys(options.runtime ?? {}))
      if (!known.includes(agent))
        throw unknownKey(agent, { known, of: '"runtime" of new Orchestrator()', kind: 'an agent' });
    this.#options = options;
    this.#registry = options.registry ?? new AgentRegistry();
    this.#saves = new AutoSaves({
      manager: options.checkpointManager,
      agents: () => this.agents.filter((agent) => this.runtimeOf(this.#nameOf(agent)).checkpoint),
      findLatest: (agent) => this.#findLatest(agent as NamedAgent).catch(unlessUnsupported),
      onFailure: async (failed) => {
        this.#failed.push(failed);
        await options.onSaveFailed?.(failed);
      },
    });
    for (const agent of options.agents) this.#add(agent);
    if (options.autoCheckpoint === true) this.#saves.start();
  }

  get checkpointManager(): CheckpointManager {
    return this.#options.checkpointManager;
  }

  get agents(): readonly NamedAgent[] {
    return [...this.#agents.values()];
  }

  agent(name: string): NamedAgent | undefined;
  /** The agent of this name and class; throws if there is none. */
  agent<Agent extends NamedAgent>(name: string, as: abstract new (...args: never[]) => Agent): Agent;
  agent(name: string, as?: abstract new (...args: never[]) => object): NamedAgent | undefined {
    if (as === undefined) return this.#agents.get(name);
    const agent = this.#open(name);
    if (agent instanceof as) return agent;
    throw new InvalidInputError(`The agent "${name}" is a ${agent.constructor.name}, and no ${as.name}.`);
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

  /** Looks after one more agent; `CLOSED` after `close`. */
  track<Agent extends NamedAgent>(agent: Agent): Agent {
    checkValue(agent, named, 'The agent of track()');
    if (this.agents.includes(agent)) return agent;
    if (this.#isClosed)
      throw new ClosedError(
        `The orchestrator is closed, so "${nameOf(agent)}" was not added. Make a new Orchestrator.`,
      );
    this.#add(agent);
    return agent;
  }

  /** Says that an agent changed: it is saved at the end of this turn of the event loop, and not at the next look. */
  changed(agent: NamedAgent): void {
    checkValue(agent, named, 'The agent of changed()');
    if (!this.agents.includes(agent)) {
      const name = nameOf(agent);
      throw new InvalidInputError(`"${name}" is not one of the orchestrator's agents. Add it with track().`, {
        details: { agent: name },
      });
    }
    const { autoCheckpoint = false } = this.#options;
    if (!this.#isClosed && autoCheckpoint && this.runtimeOf(this.#nameOf(agent)).checkpoint) this.#saves.mark(agent);
  }

  /** Lets an agent answer a message. Its words are streamed if its flags say so, and what changes is saved. */
  async reply(name: string, message: string, options: { readonly signal?: AbortSignal } = {}): Promise<ChatMessage> {
    checkOptions(options, REPLY, 'reply()');
    const agent = this.#open(name);
    if (!(agent instanceof StandardAgent))
      throw new InvalidInputError(`"${name}" is not a StandardAgent, so it cannot be asked to reply.`);
    const { onText } = this.#options;
    return agent.reply(message, {
      registry: this.#registry,
      signal: options.signal,
      onText: onText && ((delta) => onText(name, delta)),
    });
  }

  /**
   * Brings every agent back as it was last saved; returns what each restore did. Call it before the agents work: until then nothing is
   * saved over an earlier run. Agents that were never saved stay as they are, and with `onDifference: 'fail'` all do if one is refused.
   */
  async restore(options: OrchestratorRestore = {}): Promise<Readonly<Record<string, RestoreReport>>> {
    checkOptions(options, RESTORE, 'restore()');
    const { checkpointManager } = this.#options;
    const reports: Record<string, RestoreReport> = {};
    const undos: (() => Promise<unknown>)[] = [];
    try {
      for (const [name, agent] of this.#agents) {
        const latest = await this.#findLatest(agent);
        if (latest === undefined) continue;
        if (options.onDifference === 'fail') undos.push(captureAgent(agent, checkpointManager.engine.plainCodec));
        await checkpointManager.restore(latest.id, { ...options, into: agent });
        const report = checkpointManager.reportOf(agent);
        if (report !== undefined) reports[name] = report;
      }
    } catch (error) {
      for (const undo of undos) await undo();
      throw error;
    }
    return reports;
  }

  /** Stores every agent as it is now, also without `autoCheckpoint`, but for those with `checkpoint: false`; throws if one cannot be. */
  async flush(): Promise<void> {
    await this.#saves.flush();
  }

  /** Stops watching, and with `autoCheckpoint` stores every agent as it is now. Idempotent. The manager stays open. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#saves.stop();
    for (const stop of this.#unwatch.splice(0)) stop();
    if (this.#options.autoCheckpoint === true) await this.flush();
    this.#isClosed = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #add(agent: NamedAgent): void {
    const name = parseName(nameOf(agent), "An agent's name");
    if (this.#agents.has(name))
      throw new InvalidInputError(`Two agents have the name "${name}". Give one of them another.`);
    const id = this.#idFor(agent);
    const twin = this.agents.find((other) => sessionOf(other) === id);
    if (twin !== undefined)
      throw new InvalidInputError(
        `The agents "${nameOf(twin)}" and "${name}" have the same id, "${id}", and would be saved in one session. Give one of them another id.`,
        { details: { agents: [nameOf(twin), name], id } },
      );
    this.#agents.set(name, agent);
    if (agent instanceof StandardAgent) {
      agent.useRegistry(this.#registry);
      madeFields(agent); // before it works
    }
    this.#equip(agent);
    this.#saves.begin(agent);
    if (this.#options.autoCheckpoint === true && 'onChange' in agent && typeof agent.onChange === 'function')
      this.#unwatch.push(agent.onChange(() => this.changed(agent)));
  }

  /** Its own saves are to be like those of the orchestrator; and it may save itself before something risky. */
  #equip(agent: NamedAgent): void {
    const { userId, checkpointManager } = this.#options;
    if (idOf(agent) === undefined) give(agent, 'agentId', this.#idFor(agent));
    if (userId !== undefined && isUnset(agent, 'userId')) give(agent, 'userId', userId);
    const canHave = 'checkpointManager' in agent || Object.isExtensible(agent);
    if (canHave && isUnset(agent, 'checkpointManager')) give(agent, 'checkpointManager', checkpointManager);
  }

  /** What the agent was called when it was added: its name is part of its state, and may change. */
  #nameOf(agent: NamedAgent): string {
    const [name] = [...this.#agents].find(([, other]) => other === agent) ?? [nameOf(agent)];
    return name;
  }

  /** Where an agent was left. The same name may be that of another user's agent, which is nobody's to bring back. */
  async #findLatest(agent: NamedAgent): Promise<Checkpoint | undefined> {
    const { checkpointManager, userId } = this.#options;
    const latest = await findLatest(agent, checkpointManager);
    const isOwn = userId === undefined || Reflect.get(agent, 'userId') !== userId;
    if (isOwn || latest?.userId === undefined || latest.userId === userId) return latest;
    throw otherUser(latest, userId);
  }

  #idFor(agent: NamedAgent): string {
    return idOf(agent) ?? `${this.#options.sessionPrefix ?? ''}${nameOf(agent)}`;
  }

  #open(name: string): NamedAgent {
    const agent = this.#agents.get(name);
    if (agent !== undefined) return agent;
    throw new NotFoundError(`There is no agent "${name}". There are: ${[...this.#agents.keys()].join(', ')}.`, {
      details: { agent: name },
    });
  }
}

/** Where nothing can be found, every run of an agent begins a history of its own. */
function unlessUnsupported(error: unknown): undefined {
  if (!(error instanceof UnsupportedError)) throw error;
}

function otherUser({ sessionId, id, userId: found }: Checkpoint, userId: string): ConflictError {
  return new ConflictError(
    `Checkpoint ${id} of session "${sessionId}" is of user "${found}", and this orchestrator is for user "${userId}". Give each user's agents ids of their own, or pass a sessionPrefix, such as '${userId}/'.`,
    { details: { sessionId, id, expected: userId, found } },
  );
}
