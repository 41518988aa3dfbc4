import type { Checkpoint } from '../../core/checkpoint.ts';
import type { RestoreProblem } from '../../manager/restore-report.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { AgentStates } from '../agent/load-agents.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import { addDifferences, addProblems, type Difference, type OnDifference, refuse } from './differences.ts';
import { compareTeams, factsOf, readFacts, type TeamFacts } from './team-facts.ts';

/** Agents that work together: a group chat or a fleet. */
export interface Team<State extends AgentStates> {
  readonly registry: AgentRegistry;
  readonly agents: readonly StandardAgent[];
  agent(name: string): StandardAgent | undefined;
  saveState(): State;
  /** Puts a state back; returns what could not be put back. */
  loadState(state: unknown): readonly RestoreProblem[];
}

/** What the runs of one kind of team need to know of its states. */
export interface TeamKind<State extends AgentStates> {
  /** What people call it, such as "conversation". */
  readonly noun: string;
  /** Accepts a state of this kind, or throws. */
  parse(state: unknown): State;
  /** What the code says of it besides its agents. */
  settingsOf(state: State): object;
  /** The state with the agents and settings of the code. */
  adopt(state: State, code: State): State;
  /** Code of the group itself, not of its agents, that nobody registered. */
  findMissing(state: State, registry: AgentRegistry): readonly Difference[];
}

/** What a run saves as the fingerprint of its code. */
export function fingerprintOf<State extends AgentStates>(kind: TeamKind<State>, team: Team<State>): TeamFacts {
  const state = team.saveState();
  return factsOf(state, kind.settingsOf(state));
}

/** A team as its code made it, with its tools as models would be told of them now. */
export function codeOf<State extends AgentStates>(team: Team<State>): State {
  const state = team.saveState();
  const agents = Object.entries(state.agents).map(([name, agent]) => {
    const tools = team.agent(name)?.currentTools(team.registry) ?? agent.tools;
    return [name, { ...agent, tools }];
  });
  return { ...state, agents: Object.fromEntries(agents) };
}

/** What a team goes on from, and what its code says now. */
export type Meeting<State> = { readonly head: Checkpoint; readonly state: State; readonly code: State };

/** How code and checkpoint differ. */
export function findDifferences<State extends AgentStates>(
  kind: TeamKind<State>,
  { head, state, code }: Meeting<State>,
): Difference[] {
  return compareTeams(readFacts(head.fingerprint, state), factsOf(code, kind.settingsOf(code)));
}

/** Models that a team names and nobody registered. */
export function findMissingModels({ order, agents }: AgentStates, registry: AgentRegistry): Difference[] {
  return order.flatMap((name) => {
    const { modelId } = agents[name] as AgentState;
    if (modelId === null || registry.hasModel(modelId)) return [];
    const text = `The model "${modelId}" of "${name}" is not registered.`;
    return [{ path: `$.agents.${name}.model`, kind: 'missing', text }];
  });
}

/** What was decided about differences, and which setting the caller gives anew. */
export type Decision = { readonly decision: OnDifference; readonly isGiven?: ((path: string) => boolean) | undefined };

/** Puts the state of a head into the team that the code made, as was decided; returns what differs. Refuses before anything changes. */
export function resumeTeam<State extends AgentStates>(
  kind: TeamKind<State>,
  team: Team<State>,
  { decision, isGiven, ...meeting }: Meeting<State> & Decision,
): readonly Difference[] {
  const changed = findDifferences(kind, meeting).filter(({ path }) => isGiven?.(path) !== true);
  // If all is the same, the code has what was left out of the checkpoint, such as secrets in prompts.
  const isSame = changed.length === 0 && readFacts(meeting.head.fingerprint, meeting.state).settings !== undefined;
  const state = decision === 'accept' || isSame ? kind.adopt(meeting.state, meeting.code) : meeting.state;
  const missing = [...findMissingModels(state, team.registry), ...kind.findMissing(state, team.registry)];
  const found = addDifferences(changed, missing);
  refuse(found, decision, kind.noun);
  const differences = addProblems(found, team.loadState(state));
  refuse(differences, decision, kind.noun);
  return differences;
}
