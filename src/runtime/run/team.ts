import { ConflictError, InvalidInputError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { AgentStates } from '../agent/load-agents.ts';
import type { Lesson, Situation } from '../agent/run-memory.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { AgentTeam } from './agent-team.ts';
import type { AgentRequest } from './asking.ts';
import { addDifferences, addProblems, type Difference, findLosses, refuse, tellRestored } from './differences.ts';
import type { RequestAnswer, RequestForm } from './request-answers.ts';
import {
  compareTeams,
  digestPrompt,
  factsOf,
  leaveFields,
  readFingerprint,
  type TeamFacts,
  type TeamFingerprint,
} from './team-facts.ts';
import type { OpenWork } from './work.ts';

/** The types of one kind of team. */
export type TeamTypes = {
  readonly state: AgentStates;
  readonly team: AgentTeam;
  readonly settings: object;
  /** The moments at which it is saved. */
  readonly trigger: string;
  readonly end: object;
  /** What a person is asked, the same in every run; and from the moment it is. */
  readonly question: { readonly id: string; readonly agent: string };
  readonly request: AgentRequest;
  readonly answer: unknown;
};

/** How teams of one kind are compared with their checkpoints, made of them, and run. */
export interface TeamKind<Of extends TeamTypes> {
  /** What people call it, such as "conversation". */
  readonly noun: string;
  /** Accepts a state of this kind, or throws. */
  parse(state: unknown): Of['state'];
  /** What the code says of it besides its agents. */
  settingsOf(state: Of['state']): object;
  /** The state with the agents and settings of the code. */
  adopt(state: Of['state'], code: Of['state']): Of['state'];
  /** Code of the group itself, not of its agents, that nobody registered. */
  findMissing(state: Of['state'], registry: AgentRegistry): readonly Difference[];
  make(agents: StandardAgent[], registry: AgentRegistry, state: Of['state']): Of['team'];
  /** Changes its settings on purpose. */
  override(team: Of['team'], settings: Partial<Of['settings']>): void;

  /** The name of its next move: the work that calls belong to. It follows from the state. */
  workOf(team: Of['team']): string;
  /** What a state of this kind holds of a move that was under way. */
  worksOf(state: unknown): readonly OpenWork[];
  /** What was said last, and where a checkpoint stands, for lists. */
  describe(
    team: Of['team'],
    end: Of['end'] | undefined,
  ): { readonly last: ChatMessage | undefined; readonly place: Readonly<Record<string, unknown>> };
  /** What it works on, for questions to long-term memory. */
  situation(team: Of['team']): Omit<Situation, 'heard'>;
  /** What a person asked that a checkpoint was saved for, besides the messages. */
  requested(team: Of['team'], trigger: string | undefined): readonly Lesson[];
  isTaught(lesson: Lesson): boolean;
  /** The moment at which it is saved for the last message. */
  readonly spoken: Of['trigger'];

  readonly requests: RequestForm<Of['state'], Of['request']>;
  /** Whether a request is in a checkpoint before somebody in this process is asked, so that others may be faster. */
  readonly announces: boolean;
  toRequest(question: Of['question'], team: Of['team'], nowMs: number): Of['request'];
  toAnswer(given: RequestAnswer): Of['answer'];
  /** Notes that a request is open, and that it is not any more. */
  asks(team: Of['team'], request: Of['request']): void;
  answered(team: Of['team'], id: string, answer: Of['answer']): void;
}

/** A team as its code made it, with its tools as models would be told of them now. */
export function codeOf<State extends AgentStates>(team: AgentTeam<State>): State {
  const state = team.saveState();
  const agents = mapValues(state.agents, (agent, name) => {
    return { ...agent, tools: team.agent(name)?.currentTools(team.registry) ?? agent.tools };
  });
  return { ...state, agents };
}

/** What teams were before the settings of a file were put over them. */
const unconfigured = new WeakMap<object, AgentStates>();

/** The checkpoints of teams that a restorer made and nobody ran yet. */
const restored = new WeakMap<object, CheckpointId>();

/** Notes what a team was restored from: a run goes on from the head of its session. */
export function noteRestored(team: AgentTeam, id: CheckpointId): void {
  restored.set(team, id);
}

/** Refuses a team that was restored from elsewhere than the head: what it holds would be lost. */
export function checkRestored(team: AgentTeam, { id: sessionId, head }: Pick<Session, 'id' | 'head'>): void {
  const id = restored.get(team);
  if (id !== undefined && id !== head?.id)
    throw new InvalidInputError(
      `This group was restored from ${id}, and session "${sessionId}" is at ${head?.id ?? 'its beginning'}. To go on from there use restorer.continue('${id}', ...), in a new branch; or manager.rewind('${id}'), and resume() with a group that your code made.`,
      { details: { sessionId, restoredFrom: id, headId: head?.id ?? null } },
    );
  restored.delete(team);
}

/** Agents that are in a run, and the session of that. */
const atWork = new WeakMap<StandardAgent, string>();

/** Keeps agents for one run at a time: in two at once each would hear, and save, what is said in the other. */
export async function withAgents<Result>(
  team: AgentTeam,
  { id: sessionId }: Pick<Session, 'id'>,
  run: () => Promise<Result>,
): Promise<Result> {
  const { made } = team;
  for (const agent of made) refuseAtWork(agent);
  for (const agent of made) atWork.set(agent, sessionId);
  try {
    return await run();
  } finally {
    for (const agent of made) atWork.delete(agent);
  }
}

function refuseAtWork(agent: StandardAgent): void {
  const sessionId = atWork.get(agent);
  if (sessionId === undefined) return;
  const { name } = agent;
  throw new ConflictError(
    `Agent "${name}" is at work in session "${sessionId}", and would hear here what is said there. Make new agents for each session, or wait until that run has ended.`,
    { details: { kind: 'agent', agent: name, sessionId } },
  );
}

/** Puts the settings of a file over a team that its code made: they hold where it begins, and are no part of its code. */
export function configureTeam<State extends AgentStates>(team: AgentTeam<State>, change: () => void): void {
  unconfigured.set(team, codeOf(team));
  change();
}

/** A team as it begins, and what of that its code says. */
export type MadeTeam<State> = { readonly code: State; readonly facts: TeamFacts };

/** What was made, before it begins or goes on. */
export function madeOf<Of extends TeamTypes>(kind: TeamKind<Of>, team: Of['team']): MadeTeam<Of['state']> {
  const code: Of['state'] = codeOf(team);
  const own = unconfigured.get(team) ?? code;
  return { code, facts: factsOf(team, own, kind.settingsOf(own)) };
}

/** Reads what is known of a checkpoint's code. What a person edited has no fingerprint: the code is that of the checkpoint before. */
export async function readCode(
  manager: CheckpointManager,
  head: Checkpoint,
  state: AgentStates,
): Promise<TeamFingerprint> {
  let origin: Checkpoint | undefined = head;
  while (origin?.fingerprint === undefined && origin?.parentId !== undefined)
    origin = await manager.get(origin.parentId);
  const fingerprint = readFingerprint(origin?.fingerprint, state);
  return origin === head ? fingerprint : { ...fingerprint, prompts: {} };
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

/** The head that a team goes on from, what was decided about differences, and what the caller gives anew. */
type Resumption = {
  readonly head: Checkpoint;
  readonly state: unknown;
  readonly decision: OnDifference;
  /** The limit that the caller gives. */
  readonly isGiven: (path: string) => boolean;
};

/** A team that the code made, as it was made, and where its checkpoints are. */
type Made<Of extends TeamTypes> = MadeTeam<Of['state']> & {
  readonly team: Of['team'];
  readonly manager: CheckpointManager;
};

/** How a team goes on: what differs, the code that its checkpoints name, and whether the code has another limit than they. */
export type Resumed = {
  readonly differences: readonly Difference[];
  readonly facts: TeamFacts;
  readonly hasNewLimit: boolean;
};

/** Puts a state into the team that the code made, as was decided, and tells. Refuses before anything changes. */
export async function resumeTeam<Of extends TeamTypes>(
  kind: TeamKind<Of>,
  { team, code, facts: now, manager }: Made<Of>,
  { head, decision, isGiven, ...given }: Resumption,
): Promise<Resumed> {
  const saved = kind.parse(given.state);
  const fingerprint = await readCode(manager, head, saved);
  const all = compareTeams(fingerprint, now);
  const changed = all.filter(({ path }) => !isGiven(path));
  const state =
    decision === 'accept' ? leaveFields(kind.adopt(saved, code), changed) : withWholePrompts(saved, code, fingerprint);
  const missing = [...findMissingModels(state, team.registry), ...kind.findMissing(state, team.registry)];
  const found = addDifferences(changed, missing);
  refuse(found, decision, kind.noun);
  for (const { name, codeExecution } of Object.values(code.agents)) team.registry.limitCode(name, codeExecution);
  const problems = team.loadState(state);
  refuse(addProblems(found, findLosses(problems)), decision, kind.noun);
  const differences = addProblems(found, problems);
  await tellRestored(manager, { checkpoint: head, restored: team, differences });
  const { agents, settings } = fingerprint;
  const isKept = decision === 'warn' && differences.length > 0;
  const facts = isKept ? { agents, ...(settings !== undefined && { settings }) } : now;
  return { differences, facts, hasNewLimit: changed.length < all.length };
}

/** Where the prompt of the code is the one that was in force, it is whole; the one of the checkpoint may lack its secrets. */
function withWholePrompts<State extends AgentStates>(state: State, code: State, { prompts }: TeamFingerprint): State {
  const agents = mapValues(state.agents, (agent, name) => {
    const made = code.agents[name];
    if (made === undefined || digestPrompt(made) !== prompts[name]) return agent;
    const { systemMessage, description } = made;
    return { ...agent, systemMessage, description };
  });
  return { ...state, agents };
}
