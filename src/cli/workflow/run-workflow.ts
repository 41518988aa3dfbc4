import { basename, resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { OnDifference } from '../../runtime/run/differences.ts';
import { checkRegistry } from '../../runtime/workflow/definition/registry.ts';
import type { RunOptions, WorkflowResult } from '../../runtime/workflow/executor-options.ts';
import { superviseWorkflow } from '../../runtime/workflow/supervise.ts';
import { WorkflowExecutor } from '../../runtime/workflow/workflow-executor.ts';
import type { Context } from '../base/context.ts';
import { EXIT, type ExitCode } from '../base/exit-code.ts';
import { BegunRuns } from '../place/own-files.ts';
import type { FoundSettings } from '../place/project.ts';
import { toJsonForm } from '../state/json-form.ts';
import { nameCutOffRuns } from '../team/cut-off.ts';
import { NOT_KEPT } from '../team/run-text.ts';
import { parseAnswers } from '../team/talk-options.ts';
import { formatTime } from '../terminal/format.ts';
import { findRegistryPath, openWorkflow, openWorkflowRegistry } from './open-workflow.ts';

/** Which workflow is run, and with what. */
export type WorkflowOrder = {
  readonly file: string;
  readonly sessionId: string;
  readonly registry: string | undefined;
  /** As JSON. */
  readonly input: string | undefined;
  readonly answers: readonly string[];
  /** Goes on from this checkpoint, in a new branch if it is no head. */
  readonly checkpointId: string | undefined;
  readonly onDifference: OnDifference | undefined;
  /** Whose run it is; default: SAVESTATE_USER, or whose it was. */
  readonly user: string | undefined;
};

/** Runs a workflow file, or goes on with a run of it; tells how far it came. */
export async function runWorkflow(context: Context, order: WorkflowOrder): Promise<ExitCode | undefined> {
  const { sessionId, file } = order;
  const answers = parseAnswers(order.answers);
  const { workflow, settings } = await openWorkflow(context, file);
  context.useSettings(settings);
  const registryPath = findRegistryPath(context, file, order.registry);
  const registry = await openWorkflowRegistry(context, registryPath);
  checkRegistry(workflow, registry); // before anything is made
  const run = { workflow, ...describeRun(context, order) };
  const isKept = await context.keepsRuns();
  if (isKept && order.answers.length > 0) await context.open(); // who answers has a run
  const opened = await context.openForRun();
  await nameCutOffRuns(context, { opened, sessionId });
  const { manager } = opened;
  const humanInTheLoop = settings.config.workflow.human_in_the_loop;
  const executor = new WorkflowExecutor({ manager, registry, humanInTheLoop });
  for (const [requestId, answer] of Object.entries(answers))
    await executor.answer({ sessionId, requestId, answer, by: context.author ?? 'user' });
  if (isKept)
    (await BegunRuns.open(context)).add(sessionId, { file: resolve(context.folder, file), registry: registryPath });
  const result = await supervise(context, executor, { settings, run });
  if (result === undefined) return EXIT.interrupted;
  if (order.checkpointId !== undefined) await manager.switchBranch(sessionId, result.branch);
  const output = toOutput(result, isKept);
  for (const { text } of result.differences) context.say(text);
  await context.answer(output, () => describeWorkflow(output));
  context.say(isKept ? `session ${sessionId}, branch ${result.branch}, ${result.checkpointId}` : NOT_KEPT);
  return EXITS[result.status];
}

function describeRun(
  { env }: Context,
  { sessionId, file, input: json, ...order }: WorkflowOrder,
): Omit<RunOptions, 'workflow'> {
  const { checkpointId, onDifference, user: userId = env.SAVESTATE_USER || undefined } = order;
  const input = parseInput(json);
  return {
    sessionId,
    metadata: { workflowFile: basename(file) },
    ...(input !== undefined && { input }),
    ...(checkpointId !== undefined && { checkpointId }),
    ...(onDifference !== undefined && { onDifference }),
    ...(userId !== undefined && { userId }),
  };
}

/** Runs it as the settings say; undefined if it took longer than they allow. */
async function supervise(
  context: Context,
  executor: WorkflowExecutor,
  { settings, run }: { readonly settings: FoundSettings; readonly run: RunOptions },
): Promise<WorkflowResult | undefined> {
  const { checkpointing, timeout_seconds: seconds } = settings.config.workflow;
  const limit = seconds === undefined ? undefined : AbortSignal.timeout(seconds * 1_000);
  const signal = limit === undefined ? context.signal : AbortSignal.any([context.signal, limit]);
  try {
    const result = await superviseWorkflow(
      executor,
      { ...run, signal },
      {
        settings: checkpointing,
        onRetry: ({ attempt, pauseMs }) => context.say(`attempt ${attempt} failed; the next one is in ${pauseMs} ms`),
      },
    );
    context.signal.throwIfAborted();
    return result;
  } catch (error) {
    if (limit?.aborted !== true || context.signal.aborted) throw error;
    const next = (await context.keepsRuns()) ? 'What has ended is kept; go on with: savestate continue' : NOT_KEPT;
    context.say(`Stopped after ${seconds} s (timeout_seconds). ${next}`);
    return undefined;
  }
}

function toOutput(result: WorkflowResult, isKept: boolean) {
  return {
    kind: 'workflow',
    sessionId: result.sessionId,
    branch: result.branch,
    checkpointId: isKept ? result.checkpointId : null,
    status: result.status,
    output: toJsonForm(result.output) ?? null,
    failure: result.failure === undefined ? null : { path: result.failure.path, message: result.failure.error.message },
    questions: result.pending.approvals.map(({ id, message, options }) => ({
      id,
      text: message,
      choices: [...options],
    })),
    timers: result.pending.timers.map(({ path, atMs }) => ({ path, at: new Date(atMs).toISOString() })),
    steps: result.steps.map(({ path, status }) => ({ path, status })),
  };
}

const EXITS = { completed: undefined, failed: EXIT.failed, waiting: EXIT.partial } as const;

function parseInput(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InvalidInputError(
      `--input must be JSON, such as '{"name":"Ann"}'; these ${text.length} characters are not.`,
      { cause },
    );
  }
}

/** The run of a workflow as `--json` tells it. */
type RunOutput = ReturnType<typeof toOutput>;

/** How far a workflow came, step by step, and what to do next. */
function describeWorkflow(output: RunOutput): string {
  const steps = output.steps.map(({ path, status }) => `${status.padEnd(7)}  ${path}\n`).join('');
  return `${steps}${describeEnd(output)}`;
}

/** Without a checkpoint nothing was kept, and nothing can be gone on with. */
function describeEnd({ status, output, failure, questions, timers, checkpointId }: RunOutput): string {
  const next = (words: string): string => (checkpointId === null ? '' : `${words}\n`);
  switch (status) {
    case 'completed':
      return `${typeof output === 'string' ? output : JSON.stringify(output, undefined, 2)}\n`;
    case 'failed':
      return `Failed at ${failure?.path}: ${failure?.message}\n${next('Try again with: savestate continue')}`;
    case 'waiting':
      return [
        ...questions.map(
          ({ id, text, choices }) =>
            `Waiting: ${text} (${choices.join(', ')})\n${next(`Answer with: savestate continue --answer '${id}=...'`)}`,
        ),
        ...timers.map(({ path, at }) => `${path} waits until ${formatTime(new Date(at))} UTC.\n`),
      ].join('');
  }
}
