import { InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { madeFields } from '../agent/agent-fields.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { type AgentTotals, addTotals } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import { type AgentStates, loadAgents } from '../agent/load-agents.ts';
import { type HeardMessage, toMessage } from '../agent/reply.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { OpenWork } from './work.ts';

/** What a checkpoint of a team holds, besides the record of its work. */
export type TeamState<Kind extends string> = AgentStates & {
  readonly kind: Kind;
  readonly formatVersion: 1;
  /** What the move under way has called, if it was saved before it was over: it goes on from there. */
  readonly works?: readonly OpenWork[];
};

/** What every team keeps of its work. */
export type TeamRecord = { readonly messages: readonly ChatMessage[]; readonly end: object | null };

/** Agents that work together, and the record of their work: a group chat or a fleet. It does nothing by itself. */
export abstract class AgentTeam<State extends AgentStates = AgentStates, Record extends TeamRecord = TeamRecord> {
  readonly registry: AgentRegistry;
  readonly #made: ReadonlyMap<string, StandardAgent>;
  #agents: ReadonlyMap<string, StandardAgent>;
  #record: Record;

  constructor(agents: readonly StandardAgent[], record: Record, registry = new AgentRegistry()) {
    this.registry = registry;
    this.#made = new Map(agents.map((agent) => [agent.name, agent]));
    this.#agents = this.#made;
    this.#record = record;
    for (const agent of agents) registry.addAgent(agent);
    for (const agent of agents) madeFields(agent); // before they work
  }

  /** Under this name agents keep their copy of the team's conversation. */
  protected abstract get partner(): string;

  /** What the team has used besides its agents. */
  protected abstract get ownTotals(): AgentTotals;

  /** Everything a checkpoint holds of the team. */
  abstract saveState(): State;

  /** Puts a state back; returns what could not be put back. */
  abstract loadState(state: unknown): readonly RestoreProblem[];

  get record(): Record {
    return this.#record;
  }

  get agents(): readonly StandardAgent[] {
    return [...this.#agents.values()];
  }

  /** @internal All that the code made, also those that a loaded state does not have. */
  get made(): readonly StandardAgent[] {
    return [...this.#made.values()];
  }

  agent(name: string): StandardAgent | undefined {
    return this.#agents.get(name);
  }

  /** @internal The agent of this name; throws if there is none. */
  openAgent(name: string): StandardAgent {
    const agent = this.#agents.get(name);
    if (agent !== undefined) return agent;
    const names = [...this.#agents.keys()].join(', ');
    throw new InvalidInputError(`There is no agent "${name}" in the team. There are: ${names}.`, {
      details: { agent: name },
    });
  }

  /** @internal Who is in it, as others are told of them. */
  get members(): readonly { readonly name: string; readonly description: string }[] {
    return this.agents.map(({ name, introduction }) => ({ name, description: introduction }));
  }

  /** What everybody has used. */
  get totals(): AgentTotals {
    return this.agents.map((agent) => agent.saveState().totals).reduce(addTotals, this.ownTotals);
  }

  change(change: Partial<Record>): void {
    const record = { ...this.#record, ...change };
    freezeState(record);
    this.#record = record;
  }

  /** Says something to everybody, by the person unless it has a name: it is in the transcript, and all but its speaker hear it. */
  append(said: string | HeardMessage | ChatMessage): void {
    const message = toMessage(said, PERSON);
    this.change({ ...this.#record, messages: [...this.#record.messages, message] });
    for (const agent of this.agents) if (agent.name !== message.name) agent.receive(message, this.partner);
  }

  /** Puts the agents of a state back, in its order. Others that the code made are left out: they know nothing of what was said. */
  protected loadMembers(states: AgentStates): readonly RestoreProblem[] {
    const found = states.order.flatMap((name) => this.#made.get(name) ?? []);
    this.#agents = new Map(found.map((agent) => [agent.name, agent]));
    return loadAgents(this.#agents, states, this.registry);
  }

  protected saveMembers(): Pick<AgentStates, 'order' | 'agents'> {
    const agents = [...this.#agents].map(([name, agent]) => [name, agent.saveState()]);
    return { order: [...this.#agents.keys()], agents: Object.fromEntries(agents) };
  }
}

/** Throws if the members of a team, its leader and the person cannot be told apart by their names. */
export function checkMembers(names: readonly string[], leader: string): void {
  const fail = (problem: string): never => {
    throw new InvalidInputError(problem, { details: { option: 'agents' } });
  };
  if (names.length === 0) fail('A team needs at least one agent.');
  const all = [leader, ...names];
  if (all.includes(PERSON)) fail(`"${PERSON}" is the name of the person. Give the agent another.`);
  const twice = all.find((name, at) => all.indexOf(name) < at);
  if (twice !== undefined) fail(`"${twice}" is the name of two in the team. Give one of them another.`);
}
