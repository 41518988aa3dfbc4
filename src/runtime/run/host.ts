import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/effect-log.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { parseRunMemory } from '../agent/run-memory.ts';
import type { DifferenceOptions } from './differences.ts';
import { type GivenAnswer, type RequestAnswer, RequestAnswers } from './request-answers.ts';
import { openOutcome, withSeat } from './seat.ts';
import {
  checkRestored,
  type MadeTeam,
  madeOf,
  type Resumed,
  resumeTeam,
  type TeamKind,
  type TeamTypes,
  withAgents,
} from './team.ts';
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

type HostParts<Of extends TeamTypes, Result> = {
  readonly team: Of['team'];
  readonly options: HeldOptions & RunOptions<Of['team']>;
  /** The setting that limits the rounds. */
  readonly limit: string;
  readonly run: (session: Session, prepared: Prepared<Of>, signal: AbortSignal | undefined) => Promise<Result>;
};

/** The session of a team: begun, continued and answered by any process, by one at a time. */
export class RunHost<Of extends TeamTypes, Result extends { readonly status: string }> {
  readonly made: MadeTeam<Of['state']>;
  readonly #kind: TeamKind<Of>;
  readonly #parts: HostParts<Of, Result>;
  readonly #answers: RequestAnswers<Of['state'], Of['request']>;

  constructor(kind: TeamKind<Of>, parts: HostParts<Of, Result>) {
    const { options, team } = parts;
    parseRunMemory(options.memory, options.userId);
    this.#kind = kind;
    this.#parts = parts;
    this.made = madeOf(kind, team);
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
    return withAgents(team, session, async () => openOutcome(await run(session, await this.load(session), signal)));
  }

  /** Puts the state of the head into the team, as was decided about differences. */
  async load(session: Session, { rounds, ...deciding }: LoadOptions = {}): Promise<Resumed & Pick<Hold<Of>, 'undone'>> {
    const { id, head, state } = session;
    if (head === undefined)
      throw new NotFoundError(
        `Session "${id}" has no ${this.#kind.noun} yet. Use run() to begin.${this.#parts.options.manager.engine.repository.describeEnd(id)}`,
        { details: { sessionId: id } },
      );
    const { team, options, limit } = this.#parts;
    const isGiven = (path: string): boolean => rounds !== undefined && path === `$.settings.${limit}`;
    const { onDifference: decision = 'fail' } = { ...options, ...deciding };
    const made = { ...this.made, team, manager: options.manager };
    const resumed = await resumeTeam(this.#kind, made, { head, state, isGiven, decision });
    return { ...resumed, undone: await readUndone(options.manager, session, this.#kind.worksOf) };
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
