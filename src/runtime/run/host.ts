import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/step.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentStates } from '../agent/load-agents.ts';
import { parseRunMemory } from '../agent/run-memory.ts';
import {
  addDifferences,
  addProblems,
  type Difference,
  type DifferenceOptions,
  findLosses,
  refuse,
  tellRestored,
} from './differences.ts';
import { type GivenAnswer, type RequestAnswer, RequestAnswers } from './request-answers.ts';
import { withSeat } from './seat.ts';
import {
  checkRestored,
  codeOf,
  findMissingModels,
  ownCodeOf,
  readCode,
  type TeamKind,
  type TeamTypes,
  withAgents,
} from './team.ts';
import {
  compareTeams,
  digestPrompt,
  factsOf,
  leaveFields,
  type TeamFacts,
  type TeamFingerprint,
} from './team-facts.ts';
import type { Hold, RunOptions } from './team-run.ts';
import { readUndone } from './undone-calls.ts';

/** Where a team is held, and with which decision about differences. */
export type HeldOptions = DifferenceOptions & {
  readonly manager: CheckpointManager;
  readonly sessionId: string;
  readonly branch?: string;
  readonly mode?: EffectMode;
};

/** How a team goes on: the code its checkpoints name, what differs, and what its first checkpoint is about. */
export type Prepared<Of extends TeamTypes> = Pick<Hold<Of>, 'facts' | 'differences' | 'first' | 'answers' | 'undone'>;

/** How a session goes on; `rounds` are given by the caller, so that another limit of the code is no difference. */
export type LoadOptions = DifferenceOptions & { readonly rounds?: number | undefined };

/** What a team goes on with, what differs, and whether the caller gives another limit than its checkpoints say. */
type Resumed<Of extends TeamTypes> = Pick<Hold<Of>, 'undone'> & {
  readonly differences: readonly Difference[];
  readonly facts: TeamFacts;
  readonly hasNewLimit: boolean;
};

type HostParts<Of extends TeamTypes, Result> = {
  readonly team: Of['team'];
  readonly options: HeldOptions & RunOptions<Of['team']>;
  /** The setting that limits the rounds. */
  readonly limit: string;
  readonly run: (session: Session, prepared: Prepared<Of>, signal: AbortSignal | undefined) => Promise<Result>;
};

/** The session of a team: begun, continued and answered by any process, by one at a time. */
export class RunHost<Of extends TeamTypes, Result extends { readonly status: string }> {
  readonly made: { readonly code: Of['state']; readonly facts: TeamFacts };
  readonly #kind: TeamKind<Of>;
  readonly #parts: HostParts<Of, Result>;
  readonly #answers: RequestAnswers<Of['state'], Of['request']>;

  constructor(kind: TeamKind<Of>, parts: HostParts<Of, Result>) {
    const { options, team } = parts;
    parseRunMemory(options.memory, options.userId);
    this.#kind = kind;
    this.#parts = parts;
    const code: Of['state'] = codeOf(team);
    const own = ownCodeOf<Of['state']>(team, code);
    this.made = { code, facts: factsOf(team, own, kind.settingsOf(own)) };
    this.#answers = new RequestAnswers(options.manager, kind.requests);
  }

  /** Begins what the session holds; throws if it holds something already. */
  async begin(prepare: () => void): Promise<Result> {
    return this.hold(async ({ id, head }) => {
      if (head !== undefined)
        throw new InvalidInputError(
          `Session "${id}" has a ${this.#kind.noun} already, at ${head.id}. Use resume() to go on with it, or another session.`,
          { details: { sessionId: id, headId: head.id } },
        );
      prepare();
      return { facts: this.made.facts };
    });
  }

  /** Holds the session alone, and lets the team work from what is prepared. */
  async hold(prepare: (session: Session) => Promise<Prepared<Of>>): Promise<Result> {
    const { options, run, team } = this.#parts;
    const { manager, sessionId, branch, mode } = options;
    const place = { sessionId, branch, ...(mode !== undefined && { mode }) };
    return withSeat(manager, place, async (session) => {
      checkRestored(team, session);
      return withAgents(team, session, async () => run(session, await prepare(session), options.signal));
    });
  }

  /** Goes on with a session whose process died, under its lease; throws what it fails with, so that it comes up again later. */
  async recover(session: Session, { lease }: Pick<Recovery, 'lease'>): Promise<Result> {
    const { options, run, team } = this.#parts;
    const signal = AbortSignal.any([options.signal ?? lease.signal, lease.signal]);
    return withAgents(team, session, async () => {
      const result = await run(session, await this.load(session), signal);
      if (result.status === 'failed' && 'error' in result) throw result.error;
      return result;
    });
  }

  /** Puts the state of the head into the team, as was decided about differences, and tells. Refuses before anything changes. */
  async load(session: Session, { rounds, ...deciding }: LoadOptions = {}): Promise<Resumed<Of>> {
    const { id, head } = session;
    const { team, options, limit } = this.#parts;
    const { manager } = options;
    if (head === undefined)
      throw new NotFoundError(
        `Session "${id}" has no ${this.#kind.noun} yet. Use run() to begin.${manager.engine.repository.describeEnd(id)}`,
        { details: { sessionId: id } },
      );
    const kind = this.#kind;
    const { code, facts: now } = this.made;
    const { onDifference: decision = 'fail' } = { ...options, ...deciding };
    const saved = kind.parse(session.state);
    const fingerprint = await readCode(manager, head, saved);
    const all = compareTeams(fingerprint, now);
    const changed = all.filter(({ path }) => rounds === undefined || path !== `$.settings.${limit}`);
    const state: Of['state'] =
      decision === 'accept'
        ? leaveFields(kind.adopt(saved, code), changed)
        : withWholePrompts(saved, code, fingerprint);
    const missing = [...findMissingModels(state, team.registry), ...kind.findMissing(state, team.registry)];
    const found = addDifferences(changed, missing);
    refuse(found, decision, kind.noun);
    for (const { name, codeExecution } of Object.values(code.agents)) team.registry.limitCode(name, codeExecution);
    const problems = team.loadState(state);
    refuse(addProblems(found, findLosses(problems)), decision, kind.noun);
    const differences = addProblems(found, problems);
    await tellRestored(manager, { checkpoint: head, restored: team, differences });
    const facts = decision === 'warn' && differences.length > 0 ? fingerprint : now;
    const undone = await readUndone(manager, session, kind.worksOf);
    return { differences, facts, hasNewLimit: changed.length < all.length, undone };
  }

  /** What people are asked now. */
  async pending(): Promise<Of['request'][]> {
    return this.#answers.pending(this.#place);
  }

  /** Answers a request, for whoever resumes the session, here or elsewhere. Of several answers the first is taken. */
  async answer(given: Omit<GivenAnswer, 'sessionId' | 'branch'>): Promise<RequestAnswer> {
    return this.#answers.give({ ...given, ...this.#place });
  }

  get #place() {
    const { sessionId, branch } = this.#parts.options;
    return { sessionId, ...(branch !== undefined && { branch }) };
  }
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
