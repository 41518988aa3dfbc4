import { readFile } from 'node:fs/promises';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { isSameInput } from '../../manager/effect/input-digest.ts';
import type { Lease } from '../../manager/lease/lease.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { tellRestored } from '../run/differences.ts';
import { deadlineOf, type GivenAnswer, RequestAnswers, type RequestPlace } from '../run/request-answers.ts';
import { type SeatPlace, withSeat } from '../run/seat.ts';
import { fingerprintOf } from './definition/fingerprint.ts';
import { parseWorkflow } from './definition/parse-workflow.ts';
import { checkRegistry } from './definition/registry.ts';
import type { Workflow } from './definition/workflow.ts';
import {
  checkRun,
  parseExecutorOptions,
  type RunOptions,
  type WorkflowExecutorOptions,
  type WorkflowResult,
} from './executor-options.ts';
import { type Adopted, adoptChange } from './migration.ts';
import { type Answers, APPROVALS } from './step/approvals.ts';
import { LeftOutSecrets } from './step/left-out-secrets.ts';
import { RunRecord } from './step/run-record.ts';
import {
  type ApprovalAnswer,
  type ApprovalRequest,
  newRunState,
  type Outcome,
  parseRunState,
  type RunState,
} from './step/run-state.ts';
import { Scope } from './step/scope.ts';
import { absorbAttempts } from './step/step-attempts.ts';
import { WorkflowRun } from './step/workflow-run.ts';

/** Runs workflows so that they survive: what has ended is not done again, in whatever process they go on. */
export class WorkflowExecutor {
  readonly #options: WorkflowExecutorOptions;
  readonly #terms: ReturnType<typeof parseExecutorOptions>;
  readonly #answers: Answers;

  constructor(options: WorkflowExecutorOptions) {
    this.#options = options;
    this.#terms = parseExecutorOptions(options);
    this.#answers = new RequestAnswers(options.manager, APPROVALS);
  }

  get manager(): CheckpointManager {
    return this.#options.manager;
  }

  /** Begins a run or resumes it, and stays with it until it has ended or can only wait. Rejects if it cannot be recorded. */
  async run(options: RunOptions): Promise<WorkflowResult> {
    const order = await this.#order(options);
    checkRegistry(order.workflow, this.#options.registry);
    return withSeat(this.manager, await this.#locate(order), async (session, lease) => {
      const { isOver, ...run } = await this.#open(session, order);
      return isOver ? this.#resultOf({ session, ...run }) : this.#runUnder(lease, { session, ...run }, order);
    });
  }

  /** Throws if `run` would refuse to go on with a run: it is of another workflow, or steps that have begun were changed. Runs nothing. */
  async check(options: RunOptions): Promise<void> {
    const order = await this.#order(options);
    await withSeat(this.manager, await this.#locate(order), async (session) => {
      if (session.head !== undefined) await this.#adopt(session, order);
    });
  }

  /** Goes on with a run whose process died; a handler for `workers.recoverAbandoned`. A run that fails comes up again later. */
  async recover(
    session: Session,
    { lease, signal }: Pick<Recovery, 'lease'> & Pick<RunOptions, 'signal'>,
  ): Promise<WorkflowResult> {
    const saved = parseRunState(session.state, session.id);
    if (saved.status === 'completed') return this.#resultOf({ session, state: saved, differences: [] });
    const order = withoutUndefined({ workflow: await this.#findWorkflow(saved.workflow), signal });
    checkRegistry(order.workflow, this.#options.registry);
    const adopted = await this.#adopt(session, order);
    const result = await this.#runUnder(lease, { session, ...adopted }, order);
    const { failure } = result;
    if (failure === undefined || failure.isFinal) return result;
    throw Object.assign(new Error(`Step "${failure.path}" failed: ${failure.error.message}`), {
      name: failure.error.name,
    });
  }

  /** What people are asked by a run. */
  async pending(place: RequestPlace): Promise<ApprovalRequest[]> {
    return this.#answers.pending(place);
  }

  /** Answers a request, once: of several answers the first counts, and the others are a ConflictError that names it. Run it again to go on. */
  async answer(answer: GivenAnswer): Promise<ApprovalAnswer> {
    return this.#answers.give(answer);
  }

  async #order(options: RunOptions): Promise<WorkflowOrder> {
    checkRun(options);
    return { ...options, workflow: await this.#findWorkflow(options.workflow) };
  }

  /** The run of a session, begun if it is new, as it goes on under its definition. */
  async #open(session: Session, order: WorkflowOrder): Promise<Adopted & { readonly isOver: boolean }> {
    const from = session.head;
    if (from === undefined) await this.#begin(session, order);
    const { status, fingerprint } = parseRunState(session.state, session.id);
    const adopted = await this.#adopt(session, order);
    if (from !== undefined) await tellRestored(this.manager, { checkpoint: from, restored: adopted.state, ...adopted });
    return { ...adopted, isOver: status === 'completed' && fingerprint.digest === adopted.state.fingerprint.digest };
  }

  /** Where a run is. What was saved is frozen: the next save costs what is new. */
  async #locate({ sessionId, checkpointId, signal }: RunOptions): Promise<SeatPlace> {
    const { lease = {}, manager } = this.#options;
    const { repository, ports } = manager.engine;
    const terms = { freeze: true, lease: { ...lease, ...(signal !== undefined && { signal }) } };
    if (checkpointId === undefined) return { sessionId: sessionId ?? `run-${ports.nextId().slice(4)}`, ...terms };
    const { checkpoint } = await repository.open(checkpointId);
    const { id, sessionId: found } = checkpoint;
    if (sessionId !== undefined && sessionId !== found)
      throw new NotFoundError(`Checkpoint ${id} is of session "${found}", not "${sessionId}".`);
    const isHead = (await repository.readRef(found, 'branch', checkpoint.branch)) === id;
    const { branch } = isHead ? checkpoint : await manager.fork(id);
    return { sessionId: found, branch, ...terms };
  }

  /** The input is durable before the first step, so that whoever recovers the run has it. */
  async #begin(session: Session, { workflow, ...options }: WorkflowOrder): Promise<void> {
    const fingerprint = fingerprintOf(workflow, this.#options.registry.workflows);
    const input = this.manager.engine.plainCodec.copy(options.input); // what is frozen must not be the caller's own
    const inputDigest = input === undefined ? undefined : session.digestOf(input);
    const begun = { workflow: workflow.name, fingerprint, input, ...(inputDigest !== undefined && { inputDigest }) };
    await new RunRecord(session, freezeState(newRunState(begun)), options).save('workflow_started');
  }

  /** The state of a run as it goes on under this definition. What a migration moved is saved before anything runs. */
  async #adopt(session: Session, { workflow, ...options }: WorkflowOrder): Promise<Adopted> {
    const { manager, registry, migrations = [] } = this.#options;
    const saved = this.#check(session, workflow, options.input);
    const { state, inFlight } = await absorbAttempts(manager, session, saved);
    const fingerprint = fingerprintOf(workflow, registry.workflows);
    if (state.fingerprint.digest === fingerprint.digest) return { state, differences: [] };
    const answered = await this.#answers.collect({ sessionId: session.id, branch: session.branch }, state);
    const onDifference = options.onDifference ?? 'fail';
    const adopted = adoptChange({ state: answered, fingerprint, inFlight, migrations, onDifference });
    if (adopted.state.migrations !== state.migrations)
      await new RunRecord(session, adopted.state, options).save('workflow_migrated');
    return adopted;
  }

  /** The run as it was saved, with the secrets of its input if they are given again. */
  #check(session: Session, { name }: Workflow, given: unknown): RunState {
    const state = parseRunState(session.state, session.id);
    const details = { sessionId: session.id, workflow: name };
    if (state.workflow !== name)
      throw new InvalidInputError(
        `Session "${session.id}" holds a run of workflow "${state.workflow}", not of "${name}".`,
        { details },
      );
    if (given === undefined) return state;
    if (!isSameInput(state.inputDigest ?? session.digestOf(state.input), session.digestOf(given)))
      throw new InvalidInputError(
        `The run in session "${session.id}" began with another input. Leave the input out to resume it.`,
        { details },
      );
    return { ...state, input: freezeState(this.manager.engine.plainCodec.copy(given)) }; // has the secrets that were not stored
  }

  async #runUnder(lease: Lease, open: OpenRun, { workflow, ...options }: WorkflowOrder): Promise<WorkflowResult> {
    const { session, state, differences } = open;
    const { manager, registry } = this.#options;
    const record = new RunRecord(session, state, options);
    const { policy, maxConcurrency } = this.#terms;
    const parts = {
      session,
      record,
      leftOut: new LeftOutSecrets(state),
      registry,
      answers: this.#answers,
      ports: manager.engine.ports,
      signal: AbortSignal.any([lease.signal, options.signal ?? lease.signal]),
      policy,
      timers: options.timers ?? 'sleep',
      workflow: workflow.name,
    };
    const run = new WorkflowRun(parts, { maxConcurrency });
    const place = { sessionId: session.id, branch: session.branch };
    // Somebody may have answered in the moment between the last look and the end.
    const hasNews = async () => (await this.#answers.collect(place, record.state)) !== record.state;
    let end: Outcome;
    do end = await run.run(new Scope(workflow, { input: state.input }));
    while (end.status === 'open' && (await hasNews()));
    await record.finish(STATUS[end.status], end.status === 'done' ? end.output : undefined);
    return this.#resultOf({ session, state: record.state, differences }, record.checkpoints);
  }

  /** How a run ended, or where it waits. What this process did not see ending is looked up. */
  async #resultOf({ session, state, differences }: OpenRun, seen = NONE_SEEN): Promise<WorkflowResult> {
    if (session.head === undefined) throw new NotFoundError('This run has no checkpoint.');
    const { id: checkpointId } = session.head;
    const isAllSeen = state.ends.every(({ path }) => seen.has(path));
    const checkpoints = isAllSeen ? seen : await this.#findCheckpoints(checkpointId);
    const steps = state.ends.map((end) => {
      const after = checkpoints.get(end.path);
      return after === undefined ? end : { ...end, checkpointId: after };
    });
    const status = state.status === 'running' ? 'waiting' : state.status;
    const approvals = Object.values(state.requests).filter(({ answer }) => answer === undefined);
    const timers = Object.entries(state.timers).map(([path, atMs]) => ({ path, atMs }));
    const times = [...timers.map(({ atMs }) => atMs), ...approvals.flatMap((request) => deadlineOf(request) ?? [])];
    const [failure] = state.failures;
    return {
      status,
      sessionId: session.id,
      branch: session.branch,
      checkpointId,
      ...(state.output !== undefined && { output: state.output }),
      ...(status === 'failed' && failure !== undefined && { failure }),
      pending: { approvals, timers },
      ...(status === 'waiting' && times.length > 0 && { wakeAtMs: Math.min(...times) }),
      steps,
      differences,
    };
  }

  async #findCheckpoints(head: CheckpointId): Promise<Map<string, CheckpointId>> {
    const path = await this.manager.pathToRoot(head);
    const ofSteps = path.filter(({ checkpoint }) => checkpoint?.trigger === 'step_completed').toReversed();
    return new Map(ofSteps.map(({ id, checkpoint }) => [String(checkpoint?.metadata?.step), id]));
  }

  async #findWorkflow(workflow: Workflow | string): Promise<Workflow> {
    if (typeof workflow !== 'string') return workflow;
    const { workflows = {} } = this.#options.registry;
    const known = Object.hasOwn(workflows, workflow) ? workflows[workflow] : undefined;
    if (known !== undefined) return known;
    if (/\.ya?ml$/.test(workflow)) return parseWorkflow(await readWorkflow(workflow), { source: workflow });
    const suggestion = formatSuggestion(suggest(workflow, Object.keys(workflows)));
    throw new NotFoundError(`The registry has no workflow "${workflow}".${suggestion}`, { details: { workflow } });
  }
}

/** What to run, with its workflow found. */
type WorkflowOrder = RunOptions & { readonly workflow: Workflow };

/** A session with the run that it holds. */
type OpenRun = Adopted & { readonly session: Session };

const STATUS = { done: 'completed', failed: 'failed', open: 'waiting' } as const;
const NONE_SEEN: ReadonlyMap<string, CheckpointId> = new Map();

async function readWorkflow(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new InvalidInputError(`The workflow file "${path}" cannot be read.`, { details: { path }, cause });
  }
}
