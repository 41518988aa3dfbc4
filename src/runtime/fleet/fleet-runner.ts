import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkOptions, checkValue, filledString, type OptionChecks, record, string } from '../../core/options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/effect-log.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { parseRunMemory } from '../agent/run-memory.ts';
import { type DifferenceOptions, decide } from '../run/differences.ts';
import type { GivenAnswer } from '../run/request-answers.ts';
import { FLEET_RUN, HELD, RESUME } from '../run/run-options.ts';
import { openOutcome, withSeat } from '../run/seat.ts';
import { type MadeTeam, madeOf, type Resumed, resumeTeam } from '../run/team.ts';
import type { Fleet } from './fleet.ts';
import { FleetAnswers } from './fleet-answers.ts';
import { FLEET } from './fleet-kind.ts';
import type { FleetAnswer, FleetRequest } from './fleet-request.ts';
import { type FleetHold, type FleetRunOptions, type FleetRunResult, firstTrigger, holdFleet } from './fleet-run.ts';
import type { FleetState } from './fleet-state.ts';

/** What a fleet works with. */
export type FleetRunnerOptions = FleetRunOptions &
  DifferenceOptions & {
    readonly fleet: Fleet;
    readonly checkpoints: CheckpointManager;
    readonly sessionId: string;
    readonly branch?: string;
    readonly mode?: EffectMode;
  };

const OPTIONS: OptionChecks<FleetRunnerOptions> = { ...FLEET_RUN, ...HELD, fleet: { required: record } };

/** What a fleet is to do. */
type Task = { readonly task: string };

const TASK: OptionChecks<Task> = { task: { required: string } };

/** How a fleet goes on. */
export type ResumeFleetOptions = DifferenceOptions & { readonly prompt?: string; readonly rounds?: number };

/** How the fleet goes on: what its first checkpoint is about, and what differs. */
type Prepared = Pick<FleetHold, 'first' | 'facts' | 'differences'>;

/** Lets a fleet work and checkpoints it after every round, so that it can be resumed by any process, with or without a new prompt. */
export class FleetRunner {
  readonly #options: FleetRunnerOptions;
  readonly #answers: FleetAnswers;
  readonly #made: MadeTeam<FleetState>;

  constructor(options: FleetRunnerOptions) {
    checkOptions(options, OPTIONS, 'new FleetRunner()');
    parseRunMemory(options.memory, options.userId);
    this.#options = options;
    this.#made = madeOf(FLEET, options.fleet);
    this.#answers = new FleetAnswers(options.checkpoints);
  }

  get fleet(): Fleet {
    return this.#options.fleet;
  }

  get checkpoints(): CheckpointManager {
    return this.#options.checkpoints;
  }

  /** Begins a task. The session must be new. */
  async run(options: Task): Promise<FleetRunResult> {
    checkOptions(options, TASK, 'run()');
    return this.#hold(async (session) => {
      if (session.head === undefined) return this.#begin(options.task);
      throw new InvalidInputError(
        `Session "${session.id}" has a fleet at work already, at ${session.head.id}. Use resume() to go on with it, or another session.`,
        { details: { sessionId: session.id, headId: session.head.id } },
      );
    });
  }

  /** Begins a task, or goes on with what the session holds: for programs that are simply started again. */
  async runOrResume(options: Task): Promise<FleetRunResult> {
    checkOptions(options, TASK, 'runOrResume()');
    return this.#hold(async (session) =>
      session.head === undefined ? this.#begin(options.task) : this.#load(session),
    );
  }

  /** Gives it something to do: the task if the session is new, else another request that the fleet goes on with. */
  async prompt(text: string, options: Omit<ResumeFleetOptions, 'prompt'> = {}): Promise<FleetRunResult> {
    checkValue(text, string, 'The text of prompt()');
    checkOptions(options, RESUME, 'prompt()');
    return this.#hold(async (session) =>
      session.head === undefined ? this.#begin(text, options) : this.#goOn(session, { ...options, prompt: text }),
    );
  }

  /** Goes on with a fleet whose process died; a handler for `manager.recoverAbandoned`. One that fails comes up again later. */
  async recover(session: Session, { lease }: Pick<Recovery, 'lease'>): Promise<FleetRunResult> {
    const { signal = lease.signal } = this.#options;
    const signals = { signal: AbortSignal.any([signal, lease.signal]) };
    return openOutcome(await this.#holdIn(session, await this.#load(session), signals));
  }

  #begin(task: string, { rounds }: ResumeFleetOptions = {}): Prepared {
    this.fleet.loadState(this.#made.code); // a try that could not be stored may have changed it
    if (this.fleet.record.phase !== 'new')
      throw new InvalidInputError('This fleet has worked on a task already. Make a new one for another task.');
    if (task.trim() === '') throw new InvalidInputError('The task is empty. Say what the fleet is to do.');
    this.fleet.change({ task });
    if (rounds !== undefined) this.fleet.grantRounds(rounds);
    return { facts: this.#made.facts };
  }

  /**
   * Goes on where the session was left: after a crash, a stop, a failure, or with the answer it waited for. A prompt becomes a user turn
   * of the restored conversation, and the request that is worked on; also of a fleet that had ended. `rounds` lets it go on for so many
   * from here, also if a limit had ended it; one that is satisfied stays ended.
   */
  async resume(options: ResumeFleetOptions = {}): Promise<FleetRunResult> {
    checkOptions(options, { ...RESUME, prompt: filledString }, 'resume()');
    return this.#hold((session) => this.#goOn(session, options));
  }

  async #goOn(session: Session, options: ResumeFleetOptions): Promise<Prepared> {
    const { prompt, rounds } = options;
    const resumed = await this.#load(session, options);
    if (prompt !== undefined) this.fleet.addPrompt(prompt);
    if (rounds !== undefined) this.fleet.grantRounds(rounds);
    return { ...resumed, first: firstTrigger(options) };
  }

  /** What people are asked now. */
  async pending(): Promise<FleetRequest[]> {
    return this.#answers.pending(this.#place);
  }

  /** Answers a request, for whoever resumes the fleet, here or elsewhere. Of several answers the first is taken. */
  async answer(given: Omit<GivenAnswer, 'sessionId' | 'branch'>): Promise<FleetAnswer> {
    return this.#answers.give({ ...given, ...this.#place });
  }

  get #place() {
    const { sessionId, branch } = this.#options;
    return { sessionId, ...(branch !== undefined && { branch }) };
  }

  async #load({ head, state, id }: Session, options: ResumeFleetOptions = {}): Promise<Resumed> {
    if (head === undefined) {
      throw new NotFoundError(`Session "${id}" has no fleet yet. Use run() to begin.`, { details: { sessionId: id } });
    }
    const isGiven = (path: string): boolean => options.rounds !== undefined && path === '$.settings.maxRoundCount';
    const decision = decide({ ...this.#options, ...options });
    const made = { ...this.#made, team: this.fleet, checkpoints: this.checkpoints };
    return resumeTeam(FLEET, made, { head, state, isGiven, decision });
  }

  async #hold(prepare: (session: Session) => Promise<Prepared>): Promise<FleetRunResult> {
    const { checkpoints, sessionId, branch, mode } = this.#options;
    const place = { sessionId, branch, ...(mode !== undefined && { mode }) };
    return withSeat(checkpoints, place, async (session) => this.#holdIn(session, await prepare(session)));
  }

  async #holdIn(
    session: Session,
    prepared: Prepared,
    more: Pick<FleetRunOptions, 'signal'> = {},
  ): Promise<FleetRunResult> {
    const { fleet, checkpoints, sessionId: _, branch: __, mode, ...options } = this.#options;
    return holdFleet(fleet, { checkpoints, session, mode, ...prepared }, { ...options, ...more });
  }
}
