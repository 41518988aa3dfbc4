import { readFile } from 'node:fs/promises';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Lease } from '../../manager/lease/lease.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { deadlineOf, type GivenAnswer, RequestAnswers, type RequestPlace } from '../run/request-answers.ts';
import { withSeat } from '../run/seat.ts';
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
import { type OpenRun, RunOpener } from './run-opener.ts';
import { type Answers, APPROVALS } from './step/approvals.ts';
import { LeftOutSecrets } from './step/left-out-secrets.ts';
import { RunRecord } from './step/run-record.ts';
import { type ApprovalAnswer, type ApprovalRequest, parseRunState } from './step/run-state.ts';
import { Scope } from './step/scope.ts';
import { WorkflowRun } from './step/workflow-run.ts';

/** What to run, with its workflow found. */
type WorkflowOrder = RunOptions & { readonly workflow: Workflow };

/** Runs workflows so that they survive: what has ended is not done again, in whatever process they go on. */
export class WorkflowExecutor {
  readonly #options: WorkflowExecutorOptions;
  readonly #terms: ReturnType<typeof parseExecutorOptions>;
  readonly #answers: Answers;
  readonly #opener: RunOpener;

  constructor(options: WorkflowExecutorOptions) {
    this.#options = options;
    this.#terms = parseExecutorOptions(options);
    this.#answers = new RequestAnswers(options.manager, APPROVALS);
    this.#opener = new RunOpener(options, this.#answers);
  }

  get manager(): CheckpointManager {
    return this.#options.manager;
  }

  /** Begins a run or resumes it, and stays with it until it has ended or can only wait. Rejects if it cannot be recorded. */
  async run(options: RunOptions): Promise<WorkflowResult> {
    checkRun(options);
    const workflow = await this.#findWorkflow(options.workflow);
    checkRegistry(workflow, this.#options.registry);
    const order = { ...options, workflow };
    return withSeat(this.manager, await this.#opener.locate(order), async (session, lease) => {
      const open = await this.#opener.open(session, order);
      return open.isOver ? this.#resultOf(open, headOf(session)) : this.#runUnder(lease, open, order);
    });
  }

  /** Throws if `run` would refuse to go on with a run: it is of another workflow, or steps that have begun were changed. Runs nothing. */
  async check(options: RunOptions): Promise<void> {
    checkRun(options);
    const order = { ...options, workflow: await this.#findWorkflow(options.workflow) };
    await withSeat(this.manager, await this.#opener.locate(order), async (session) => {
      if (session.head !== undefined) await this.#opener.adopt(session, order);
    });
  }

  /** Goes on with a run whose process died; a handler for `workers.recoverAbandoned`. A run that fails comes up again later. */
  async recover(
    session: Session,
    { lease, signal }: Pick<Recovery, 'lease'> & Pick<RunOptions, 'signal'>,
  ): Promise<WorkflowResult> {
    const saved = parseRunState(session.state, session.id);
    if (saved.status === 'completed')
      return this.#resultOf({ session, state: saved, differences: [] }, headOf(session));
    const workflow = await this.#findWorkflow(saved.workflow);
    checkRegistry(workflow, this.#options.registry);
    const order = withoutUndefined({ workflow, signal });
    const adopted = await this.#opener.adopt(session, order);
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

  async #runUnder(
    lease: Lease,
    { session, state, differences }: OpenRun,
    { workflow, ...options }: WorkflowOrder,
  ): Promise<WorkflowResult> {
    const { manager, registry } = this.#options;
    const record = new RunRecord(session, state, options);
    const signal = AbortSignal.any([lease.signal, options.signal ?? lease.signal]);
    const { policy, maxConcurrency } = this.#terms;
    const parts = {
      session,
      record,
      leftOut: new LeftOutSecrets(state),
      registry,
      answers: this.#answers,
      ports: manager.engine.ports,
      signal,
      policy,
      timers: options.timers ?? 'sleep',
      workflow: workflow.name,
    };
    const run = new WorkflowRun(parts, { maxConcurrency });
    let end = await run.run(new Scope(workflow, { input: state.input }));
    // Somebody may have answered in the moment between the last look and the end.
    const place = { sessionId: session.id, branch: session.branch };
    const hasNews = async () => (await this.#answers.collect(place, record.state)) !== record.state;
    while (end.status === 'open' && (await hasNews())) end = await run.run(new Scope(workflow, { input: state.input }));
    const status = STATUS[end.status];
    const id = await record.finish(status, end.status === 'done' ? end.output : undefined);
    return this.#resultOf({ session, state: record.state, differences }, id, record.checkpoints);
  }

  /** What this process did not see ending is looked up. */
  async #resultOf(
    run: OpenRun,
    checkpointId: CheckpointId,
    seen: ReadonlyMap<string, CheckpointId> = new Map(),
  ): Promise<WorkflowResult> {
    const isAllSeen = run.state.ends.every(({ path }) => seen.has(path));
    const checkpoints = isAllSeen ? seen : await this.#findCheckpoints(checkpointId);
    const steps = run.state.ends.map((end) => {
      const after = checkpoints.get(end.path);
      return after === undefined ? end : { ...end, checkpointId: after };
    });
    return { ...resultOf(run, checkpointId), steps };
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

const STATUS = { done: 'completed', failed: 'failed', open: 'waiting' } as const;

async function readWorkflow(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new InvalidInputError(`The workflow file "${path}" cannot be read.`, { details: { path }, cause });
  }
}

function headOf({ head }: Session): CheckpointId {
  if (head === undefined) throw new NotFoundError('This run has no checkpoint.');
  return head.id;
}

function resultOf({ session, state, differences }: OpenRun, checkpointId: CheckpointId): Omit<WorkflowResult, 'steps'> {
  const status = state.status === 'completed' || state.status === 'failed' ? state.status : 'waiting';
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
    differences,
  };
}
