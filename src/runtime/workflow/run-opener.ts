import { findIn } from '../../core/codec/state-codec.ts';
import { hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { sleep } from '../../core/time/timer.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { isSameInput } from '../../manager/effect/input-digest.ts';
import { checkRecordsSteps } from '../../manager/effect/step-recordings.ts';
import type { Lease } from '../../manager/lease/lease.ts';
import { isLeaseConflict } from '../../manager/lease/lease-refs.ts';
import type { Session, SessionOptions } from '../../manager/session/session.ts';
import { type Difference, tellRestored } from '../run/differences.ts';
import { takeLease } from '../run/seat.ts';
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

/** Where a run is. Without a branch the session's current one. */
type Located = { readonly sessionId: string; readonly branch?: string };

/** A run that is this process's. */
type Opened = OpenRun & { readonly lease?: Lease };

/** What is run, and the name that its lease is held under. */
type Order = RunOptions & { readonly workflow: Workflow; readonly owner: string };

/** What was saved is frozen: the next save costs what is new. */
const SESSION: SessionOptions = { freeze: true };
const POLL_MS = 50;

/** Finds the session of a run, or begins it; makes sure that it is this process's, and that the definition fits, before anything runs. */
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

  /** A run under a lease; one that is completed needs none, unless its definition changed. Close the session when done. */
  async open(order: Order): Promise<Opened> {
    const { ports } = this.#engine;
    checkRecordsSteps(this.#engine, 'A workflow');
    const located = await this.#locate(order);
    const giveUpAtMs = ports.now() + (this.#options.lease?.waitMs ?? 0);
    for (;;) {
      try {
        const opened = await this.#tryOpen(located, order);
        if (opened !== undefined) return opened;
      } catch (error) {
        if (!isHeldElsewhere(error) || ports.now() >= giveUpAtMs) throw error;
        await sleep(ports, POLL_MS, order.signal);
      }
    }
  }

  async #locate({ sessionId, checkpointId }: RunOptions): Promise<Located> {
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

  /** Undefined if another process had the run a moment ago: then what was read of it is old. */
  async #tryOpen({ sessionId, branch }: Located, { workflow, owner, ...options }: Order): Promise<Opened | undefined> {
    const session = await this.#manager.session(sessionId, { ...SESSION, ...(branch !== undefined && { branch }) });
    const from = session.head;
    try {
      const isBegun = from !== undefined || (await this.#begin(session, workflow, options));
      const opened = isBegun ? await this.#take(session, { workflow, owner, ...options }) : undefined;
      if (opened === undefined) await session.close();
      else if (from !== undefined) await this.#tell(from, opened);
      return opened;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  async #take(session: Session, { workflow, owner, ...options }: Order): Promise<Opened | undefined> {
    const saved = this.#check(session, workflow, options);
    const { digest } = fingerprintOf(workflow, this.#options.registry.workflows);
    if (saved.status === 'completed' && saved.fingerprint.digest === digest)
      return { session, state: saved, differences: [] };
    const lease = await takeLease(this.#manager, session, { ...this.#options.lease, owner, waitMs: 0 });
    return lease && { session, lease, ...(await this.adopt(session, workflow, options)) };
  }

  async #tell(checkpoint: Checkpoint, { state: restored, differences }: Opened): Promise<void> {
    await tellRestored(this.#manager, { checkpoint, restored, differences });
  }

  /** The input is durable before the first step, so that whoever recovers the run has it. Answers no if another process was faster. */
  async #begin(session: Session, workflow: Workflow, options: Omit<RunOptions, 'workflow'>): Promise<boolean> {
    const fingerprint = fingerprintOf(workflow, this.#options.registry.workflows);
    const input = this.#copy(options.input);
    const begun = { workflow: workflow.name, fingerprint, input };
    const state = newRunState({ ...begun, ...(input !== undefined && { inputDigest: session.digestOf(input) }) });
    freezeState(state);
    try {
      await new RunRecord(session, state, options).save('workflow_started');
      return true;
    } catch (error) {
      if (!hasErrorCode(error, 'CONFLICT')) throw error;
      return false;
    }
  }

  /** What is frozen must not be the caller's own. */
  #copy(input: unknown): unknown {
    const { plainCodec } = this.#engine;
    const { root, chunks } = plainCodec.encode(input);
    return plainCodec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk]))));
  }

  /** The state of a run as it goes on under this definition. What a migration moved is saved before anything runs. */
  async adopt(session: Session, workflow: Workflow, options: Omit<RunOptions, 'workflow'> = {}): Promise<Adopted> {
    const { registry, migrations = [] } = this.#options;
    const saved = this.#check(session, workflow, options);
    const attempts = await readRecordedAttempts(this.#manager, session);
    const state = absorbAttempts(saved, attempts);
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
    const input = this.#copy(options.input); // has the secrets that were not stored
    freezeState(input);
    return { ...state, input };
  }
}

/** Whether another process has the run, and may end it soon. */
function isHeldElsewhere(error: unknown): boolean {
  return isLeaseConflict(error) && 'expiresAtMs' in error.details;
}
