import { isDeepStrictEqual } from 'node:util';
import { InvalidInputError } from '../../core/errors.ts';
import { describeValue, isPlainObject } from '../../core/options.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { checkMade } from '../../manager/agent/agent.ts';
import { judgeLoad } from '../../manager/agent/agent-loading.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../../manager/engine/loading.ts';
import { refuseCode } from './agent-options.ts';
import type { AgentMaker, AgentRegistry } from './agent-registry.ts';
import type { AgentState } from './agent-state.ts';
import { StandardAgent } from './standard-agent.ts';

/** The agents of a team as a checkpoint holds them. */
export type AgentStates = {
  readonly order: readonly string[];
  readonly agents: Readonly<Record<string, AgentState>>;
  /** What a move that was under way has called. */
  readonly works?: unknown;
};

/** Makes the agents of a stored team, of the classes and with the tools that are registered; their states are put in afterwards. */
export function makeAgents({ order, agents }: AgentStates, registry: AgentRegistry): StandardAgent[] {
  return order.flatMap((name) => agents[name] ?? []).map((state) => makeAgent(state, registry));
}

/** A maker is not told of code that nobody allowed: what it makes of the state would pass for the program's own wish. */
function makeAgent(state: AgentState, registry: AgentRegistry): StandardAgent {
  const maker = registry.maker(state.agentType);
  if (maker === undefined) return new StandardAgent({ name: state.name });
  return makeBy(maker, { ...state, codeExecution: registry.permitCode(state) });
}

/** Makes an agent of a registered class; throws if its maker makes something else. */
export function makeBy(maker: AgentMaker, state: AgentState): StandardAgent {
  const what = `The maker of class "${state.agentType}"`;
  const made = checkMade(maker(state), what);
  if (made instanceof StandardAgent) return made;
  throw new InvalidInputError(`${what} must return a StandardAgent; found ${describeValue(made)}.`);
}

/** Puts the states of a team back into its agents, with the tools of the registry; returns what could not be put back. */
export function loadAgents(
  team: ReadonlyMap<string, StandardAgent>,
  { order, agents }: AgentStates,
  registry: AgentRegistry,
): RestoreProblem[] {
  return order.flatMap((name) => {
    const [agent, state] = [team.get(name), agents[name]];
    const path = `$.agents.${name}`;
    if (agent === undefined || state === undefined)
      return [{ path, problem: `The agent "${name}" is not in this team.` }];
    agent.learnTools(Object.keys(state.tools).flatMap((tool) => registry.tool(tool) ?? []));
    return [...loadAgent(agent, state), ...findSecrets(state, agent), ...refuseCode(state, registry)];
  });
}

/** Puts a state into an agent, of whatever class; returns what could not be put back. */
export function loadAgent(agent: StandardAgent, state: AgentState): readonly RestoreProblem[] {
  const said: unknown = agent.loadState(state);
  return judgeLoad(agent, { state, said, at: `$.agents.${state.name}` }, matches);
}

/** Whether an agent has what was saved; a secret was not saved, so that any value will do. */
function matches(saved: unknown, live: unknown): boolean {
  if (saved instanceof SecretRef) return true;
  if (Array.isArray(saved) && Array.isArray(live))
    return saved.length === live.length && saved.every((item, at) => matches(item, live[at]));
  if (!isPlainObject(saved) || !isPlainObject(live)) return isDeepStrictEqual(saved, live);
  const keys = new Set([...Object.keys(saved), ...Object.keys(live)]);
  return [...keys].every((key) => matches(saved[key], live[key]));
}

function findSecrets({ name, fields, custom }: AgentState, agent: StandardAgent): RestoreProblem[] {
  const found = findLeftOutSecrets({ fields, custom }, { fields: agent, custom: agent.saveState().custom });
  return found.map(({ path, problem }) => ({ path: `$.agents.${name}${path.slice(1)}`, problem }));
}
