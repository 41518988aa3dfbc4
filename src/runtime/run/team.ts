import { ConflictError, InvalidInputError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
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
import type { Difference } from './differences.ts';
import type { RequestAnswer, RequestForm } from './request-answers.ts';
import { readFingerprint, type TeamFingerprint } from './team-facts.ts';
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

/** The state of a team as its code says that it begins, without what a file put over that. */
export function ownCodeOf<State extends AgentStates>(team: AgentTeam<State>, code: State): State {
  return (unconfigured.get(team) as State | undefined) ?? code;
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
