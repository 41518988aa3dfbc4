import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, checkValue, type OptionChecks } from '../../core/options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { isSameInput } from '../../manager/effect/input-digest.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { DifferenceOptions } from '../run/differences.ts';
import { type HeldOptions, type Prepared, RunHost } from '../run/host.ts';
import type { AnswersById, GivenAnswer } from '../run/request-answers.ts';
import { ANSWERS, FLEET_RUN, HELD, RESUME } from '../run/run-options.ts';
import { SUPERVISE, type Supervised, type SuperviseOptions, supervise } from '../run/supervise.ts';
import type { Fleet } from './fleet.ts';
import { FLEET, type FleetTypes } from './fleet-kind.ts';
import { type FleetRunOptions, type FleetRunResult, firstTrigger, holdFleet } from './fleet-run.ts';
import type { FleetAnswer, FleetRequest } from './fleet-state.ts';

/** What a fleet works with. */
export type FleetRunnerOptions = FleetRunOptions & HeldOptions & { readonly fleet: Fleet };

const madeFleet = is.accepts(
  'a Fleet: new Fleet({ agents, ... })',
  (value) => is.having('saveState', 'loadState')(value) === undefined,
);

const OPTIONS: OptionChecks<FleetRunnerOptions> = { ...FLEET_RUN, ...HELD, fleet: { required: madeFleet } };

type Task = { readonly task: string };

const TASK: OptionChecks<Task> = { task: { required: is.string } };

/** How a fleet goes on. */
export type ResumeFleetOptions = DifferenceOptions & {
  readonly prompt?: string;
  readonly rounds?: number;
  /** Answers to requests that are pending, by their ids; an id that is not asked for is NOT_FOUND. */
  readonly answers?: AnswersById;
};

/** Lets a fleet work and checkpoints it after every round, so that it can be resumed by any process, with or without a new prompt. */
export class FleetRunner {
  readonly #options: FleetRunnerOptions;
  readonly #host: RunHost<FleetTypes, FleetRunResult>;

  constructor(options: FleetRunnerOptions) {
    checkOptions(options, OPTIONS, 'new FleetRunner()');
    const { fleet, manager, ...run } = options;
    this.#options = options;
    this.#host = new RunHost(FLEET, {
      team: fleet,
      options,
      limit: 'maxRoundCount',
      run: (session, prepared, signal) =>
        holdFleet(fleet, { manager, session, ...prepared }, signal === undefined ? run : { ...run, signal }),
    });
  }

  get fleet(): Fleet {
    return this.#options.fleet;
  }

  get manager(): CheckpointManager {
    return this.#options.manager;
  }

  /** Begins a task. The session must be new. */
  async run(options: Task): Promise<FleetRunResult> {
    checkOptions(options, TASK, 'run()');
    return this.#host.begin(() => this.#begin(options.task));
  }

  /** Begins a task, or goes on with it: for programs that are simply started again. A session that began with another one is refused. */
  async runOrResume(options: Task): Promise<FleetRunResult> {
    checkOptions(options, TASK, 'runOrResume()');
    return this.#host.hold(async (session) =>
      session.head === undefined ? this.#begin(options.task) : this.#goOnWith(options.task, session),
    );
  }

  async #goOnWith(task: string, session: Session): Promise<Prepared<FleetTypes>> {
    const { id: sessionId, state } = session;
    const before = FLEET.parse(state).fleet.task; // lacks the secrets that were not stored
    if (!isSameInput(session.digestOf(before), session.digestOf(task)))
      throw new InvalidInputError(
        `The fleet in session "${sessionId}" began with another task. Use resume() to go on with that, prompt() to ask for something else, or another session.`,
        { details: { sessionId } },
      );
    return this.#host.load(session);
  }

  /** Gives it something to do: the task if the session is new, else another request that the fleet goes on with. */
  async prompt(text: string, options: Omit<ResumeFleetOptions, 'prompt' | 'answers'> = {}): Promise<FleetRunResult> {
    checkValue(text, is.string, 'The text of prompt()');
    checkOptions(options, RESUME, 'prompt()');
    return this.#host.hold(async (session) =>
      session.head === undefined ? this.#begin(text, options) : this.#goOn(session, { ...options, prompt: text }),
    );
  }

  /** Goes on with a fleet whose process died; a handler for `workers.recoverAbandoned`. One that fails comes up again later. */
  async recover(session: Session, recovery: Pick<Recovery, 'lease'>): Promise<FleetRunResult> {
    return this.#host.recover(session, recovery);
  }

  #begin(task: string, { rounds }: ResumeFleetOptions = {}): Prepared<FleetTypes> {
    const { code, facts } = this.#host.made;
    this.fleet.loadState(code); // a try that could not be stored may have changed it
    if (this.fleet.record.phase !== 'new')
      throw new InvalidInputError('This fleet has worked on a task already. Make a new one for another task.');
    if (task.trim() === '') throw new InvalidInputError('The task is empty. Say what the fleet is to do.');
    this.fleet.change({ task });
    if (rounds !== undefined) this.fleet.grantRounds(rounds);
    return { facts };
  }

  /**
   * Goes on where the session was left: after a crash, a stop, a failure, or with the answer it waited for. A prompt becomes a user turn
   * of the restored conversation, and the request that is worked on; also of a fleet that had ended. `rounds` lets it go on for so many
   * from here, also if a limit had ended it; one that is satisfied stays ended.
   */
  async resume(options: ResumeFleetOptions = {}): Promise<FleetRunResult> {
    checkOptions(options, { ...RESUME, ...ANSWERS, prompt: is.filledString }, 'resume()');
    if (options.prompt !== undefined && options.answers !== undefined)
      throw new InvalidInputError(
        'A prompt closes what is asked, so that nobody would hear the answers: give one of them.',
      );
    return this.#host.hold((session) => this.#goOn(session, options));
  }

  async #goOn(session: Session, { prompt, answers, ...options }: ResumeFleetOptions): Promise<Prepared<FleetTypes>> {
    const { rounds } = options;
    const resumed = await this.#host.load(session, options);
    if (prompt !== undefined) this.fleet.addPrompt(prompt);
    if (rounds !== undefined) this.fleet.grantRounds(rounds);
    return { ...resumed, answers, first: firstTrigger({ ...options, ...(prompt !== undefined && { prompt }) }) };
  }

  /** What people are asked now. */
  async pending(): Promise<FleetRequest[]> {
    return this.#host.pending();
  }

  /** Answers a request, for whoever resumes the fleet, here or elsewhere. Of several answers the first is taken. */
  async answer(given: Omit<GivenAnswer, 'sessionId' | 'branch'>): Promise<FleetAnswer> {
    return this.#host.answer(given);
  }
}

/** How a fleet is kept going. */
export type SuperviseFleetOptions = SuperviseOptions & { readonly task: string };

/** What came of a supervised fleet. */
export type SupervisedFleetResult = Supervised<FleetRunResult>;

/** Lets a fleet work, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function superviseFleet(
  runner: FleetRunner,
  supervision: SuperviseFleetOptions,
): Promise<SupervisedFleetResult> {
  checkValue(runner, is.having('runOrResume'), 'The runner of superviseFleet()');
  checkOptions(supervision, { ...SUPERVISE, task: { required: is.filledString } }, 'superviseFleet()');
  const { task, ...options } = supervision;
  return supervise<FleetRunResult>({
    ...options,
    ports: runner.manager.engine.ports,
    attempt: () => runner.runOrResume({ task }),
    failureOf: (result) =>
      result.status === 'failed' ? { error: result.error, mark: String(result.error) } : undefined,
  });
}
