import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { isSameInput } from '../../manager/effect/input-digest.ts';
import type { Session } from '../../manager/session/session.ts';
import { type Difference, tellRestored } from '../run/differences.ts';
import type { SeatPlace } from '../run/seat.ts';
import { fingerprintOf } from './definition/fingerprint.ts';
import type { Workflow } from './definition/workflow.ts';
import type { RunOptions, WorkflowExecutorOptions } from './executor-options.ts';
import { type Adopted, adoptChange } from './migration.ts';
import type { Answers } from './step/approvals.ts';
import { absorbAttempts, readRecordedAttempts } from './step/recorded-attempts.ts';
import { RunRecord } from './step/run-record.ts';
import { newRunState, parseRunState, type RunState } from './step/run-state.ts';

/** A session with the run that it holds. */
export type OpenRun = {
  readonly session: Session;
  readonly state: RunState;
  /** Changed steps whose results were kept. */
  readonly differences: readonly Difference[];
};

/** What is run. */
type Order = RunOptions & { readonly workflow: Workflow };

/** Finds the session of a run, or begins it; makes sure that the definition fits before anything runs. */
export class RunOpener {
  readonly #manager: CheckpointManager;
  readonly #options: WorkflowExecutorOptions;
  readonly #answers: Answers;

  constructor(options: WorkflowExecutorOptions, answers: Answers) {
    this.#manager = options.manager;
    this.#options = options;
    this.#answers = answers;
  }

  get #engine() {
    return this.#manager.engine;
  }

  /** The session of a run, begun if it is new, as it goes on under its definition. */
  async open(session: Session, order: Order): Promise<OpenRun & { readonly isOver: boolean }> {
    const from = session.head;
    if (from === undefined) await this.#begin(session, order);
    const { status, fingerprint } = parseRunState(session.state, session.id);
    const adopted = await this.adopt(session, order);
    const isOver = status === 'completed' && fingerprint.digest === adopted.state.fingerprint.digest;
    const opened = { session, isOver, ...adopted };
    if (from !== undefined)
      await tellRestored(this.#manager, { checkpoint: from, restored: adopted.state, ...adopted });
    return opened;
  }

  /** Where a run is. What was saved is frozen: the next save costs what is new. */
  async locate(order: RunOptions): Promise<SeatPlace> {
    const { lease = {} } = this.#options;
    const terms = { ...lease, ...(order.signal !== undefined && { signal: order.signal }) };
    return { ...(await this.#locate(order)), freeze: true, lease: terms };
  }

  async #locate({ sessionId, checkpointId }: RunOptions): Promise<Pick<SeatPlace, 'sessionId' | 'branch'>> {
    const { repository, ports } = this.#engine;
    if (checkpointId === undefined) return { sessionId: sessionId ?? `run-${ports.nextId().slice(4)}` };
    const { checkpoint } = await repository.open(checkpointId);
    if (sessionId !== undefined && sessionId !== checkpoint.sessionId) {
      throw new NotFoundError(
        `Checkpoint ${checkpoint.id} is of session "${checkpoint.sessionId}", not "${sessionId}".`,
      );
    }
    const headId = await repository.readRef(checkpoint.sessionId, 'branch', checkpoint.branch);
    const isHead = headId === checkpoint.id;
    const branch = isHead ? checkpoint.branch : (await this.#manager.fork(checkpoint.id)).branch;
    return { sessionId: checkpoint.sessionId, branch };
  }

  /** The input is durable before the first step, so that whoever recovers the run has it. */
  async #begin(session: Session, { workflow, ...options }: Order): Promise<void> {
    const fingerprint = fingerprintOf(workflow, this.#options.registry.workflows);
    const input = this.#engine.plainCodec.copy(options.input); // what is frozen must not be the caller's own
    const begun = { workflow: workflow.name, fingerprint, input };
    const state = newRunState({ ...begun, ...(input !== undefined && { inputDigest: session.digestOf(input) }) });
    freezeState(state);
    await new RunRecord(session, state, options).save('workflow_started');
  }

  /** The state of a run as it goes on under this definition. What a migration moved is saved before anything runs. */
  async adopt(session: Session, { workflow, ...options }: Order): Promise<Adopted> {
    const { registry, migrations = [] } = this.#options;
    const saved = this.#check(session, workflow, options);
    const attempts = await readRecordedAttempts(this.#manager, session);
    const state = absorbAttempts(saved, attempts);
    for (const { name } of attempts) session.letGo(name); // every checkpoint counts them from now on
    const fingerprint = fingerprintOf(workflow, registry.workflows);
    if (state.fingerprint.digest === fingerprint.digest) return { state, differences: [] };
    const inFlight = attempts.filter(({ end }) => end === undefined).map(({ path }) => path);
    const answered = await this.#answers.collect({ sessionId: session.id, branch: session.branch }, state);
    const onDifference = options.onDifference ?? 'fail';
    const adopted = adoptChange({ state: answered, fingerprint, inFlight, migrations, onDifference });
    if (adopted.state.migrations !== state.migrations)
      await new RunRecord(session, adopted.state, options).save('workflow_migrated');
    return adopted;
  }

  /** The run as it was saved, with the secrets of its input if they are given again. */
  #check(session: Session, workflow: Workflow, options: Pick<RunOptions, 'input'>): RunState {
    const state = parseRunState(session.state, session.id);
    const details = { sessionId: session.id, workflow: workflow.name };
    if (state.workflow !== workflow.name)
      throw new InvalidInputError(
        `Session "${session.id}" holds a run of workflow "${state.workflow}", not of "${workflow.name}".`,
        { details },
      );
    if (options.input === undefined) return state;
    const before = state.inputDigest ?? session.digestOf(state.input);
    if (!isSameInput(before, session.digestOf(options.input)))
      throw new InvalidInputError(
        `The run in session "${session.id}" began with another input. Leave the input out to resume it.`,
        { details },
      );
    const input = this.#engine.plainCodec.copy(options.input); // has the secrets that were not stored
    freezeState(input);
    return { ...state, input };
  }
}
