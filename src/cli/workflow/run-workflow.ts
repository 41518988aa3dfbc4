import { basename, resolve } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { checkRegistry } from '../../runtime/workflow/definition/registry.ts';
import type { RunOptions, WorkflowResult } from '../../runtime/workflow/executor-options.ts';
import { superviseWorkflow } from '../../runtime/workflow/supervise.ts';
import { WorkflowExecutor } from '../../runtime/workflow/workflow-executor.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { type CommandInput, type Context, EXIT, type ExitCode } from '../base/command.ts';
import { formatAddress } from '../place/address.ts';
import { BegunRuns, type WorkflowPlace } from '../place/own-files.ts';
import { type FoundSettings, timeLimitOf } from '../place/project.ts';
import { tendCutOff } from '../team/cut-off.ts';
import { beginDeparting } from '../team/departing.ts';
import { commandWords, flagWords, NOT_KEPT } from '../team/run-text.ts';
import { checkKind, parseAnswers, readOnDifference } from '../team/talk-options.ts';
import { formatTime } from '../terminal/format.ts';
import { findRegistryPath, openWorkflow, openWorkflowRegistry } from './workflow-file.ts';

/** Which run of a workflow file. */
export type WorkflowOrder = WorkflowPlace & {
  readonly sessionId: string;
  /** Goes on from this checkpoint, in a new branch if it is no head. */
  readonly origin?: Checkpoint;
};

/** Runs a workflow file, or goes on with a run of it, as the input says; tells how far it came. */
export async function runWorkflow(
  context: Context,
  input: CommandInput,
  order: WorkflowOrder,
): Promise<ExitCode | undefined> {
  checkKind(input, 'workflow');
  const { sessionId, origin } = order;
  const answers = Object.entries(parseAnswers(input.texts('answer')));
  const { workflow, settings } = await openWorkflow(context, order.file);
  await context.useSettings(settings);
  const place = {
    file: resolve(context.folder, order.file),
    registry: findRegistryPath(context, order.file, order.registry),
  };
  const registry = await openWorkflowRegistry(context, place.registry);
  checkRegistry(workflow, registry); // before anything is made
  const run = { workflow, ...describeRun(context, input, order) };
  const isKept = await context.keepsRuns();
  if (isKept && answers.length > 0) await context.open(); // who answers has a run
  const { manager } = await context.openForRun();
  const workflows = { ...registry.workflows, [workflow.name]: workflow };
  const humanInTheLoop = settings.config.workflow.human_in_the_loop;
  const executor = new WorkflowExecutor({ manager, registry: { ...registry, workflows }, humanInTheLoop });
  const flags = flagWords(context, input);
  await tendRuns(context, executor, { name: workflow.name, ...place, sessionId, flags });
  if (answers.length > 0) await executor.check(run); // what is refused takes no answer
  for (const [requestId, answer] of answers)
    await executor.answer({ sessionId, requestId, answer, by: input.text('user') ?? context.user });
  const where = isKept ? await noteBegun(context, sessionId, place) : '';
  const result = await departFrom(context, origin, () => supervise(context, executor, { settings, run }));
  if (result === undefined) return EXIT.interrupted;
  const output = toOutput(result, isKept);
  for (const { text } of result.differences) context.say(text);
  await context.answer(output, () => describeWorkflow(output, flags));
  context.say(isKept ? `session ${sessionId}, branch ${result.branch}, ${result.checkpointId}${where}` : NOT_KEPT);
  return EXITS[result.status];
}

/** Notes the run for `continue`; also in the project, if the workflow file names another storage, which is returned as an option. */
async function noteBegun(context: Context, sessionId: string, place: WorkflowPlace): Promise<string> {
  (await BegunRuns.open(context)).add(sessionId, place);
  const home = context.homeFolder();
  if (home === undefined || home === (await context.stateFolder())) return '';
  new BegunRuns(home).addElsewhere(sessionId, place);
  return ` in --storage ${formatAddress(await context.address())}`;
}

/** Runs it, and makes the branch current that it went on in from a checkpoint. */
async function departFrom(
  context: Context,
  origin: Checkpoint | undefined,
  run: () => Promise<WorkflowResult | undefined>,
): Promise<WorkflowResult | undefined> {
  if (origin === undefined) return run();
  const departing = await beginDeparting(context, origin);
  const result = await run();
  if (result !== undefined) await departing.makeCurrent(result.branch);
  await departing.end();
  return result;
}

/** A run, and what the next command needs, too. */
type Tended = WorkflowPlace & { readonly name: string; readonly sessionId: string; readonly flags: string };

/** Sees to the runs of the same workflow that were begun here, with the same code, and cut off. */
async function tendRuns(
  context: Context,
  executor: WorkflowExecutor,
  { name, file, registry, sessionId, flags }: Tended,
): Promise<void> {
  const begun = await BegunRuns.open(context);
  const isSamePlace = (other: WorkflowPlace | undefined) => other?.file === file && other.registry === registry;
  await tendCutOff(context, {
    isOurs: ({ kind, workflow }, id) => kind === 'workflow_run' && workflow === name && isSamePlace(begun.find(id)),
    recover: async (session, { lease, signal }) =>
      describeEnd(toOutput(await executor.recover(session, { lease, signal }), true), flags).trimEnd(),
    goOn: (id) => commandWords(id, flags).goOn,
    sessionId,
  });
}

function describeRun(
  { env }: Context,
  input: CommandInput,
  { sessionId, origin, file }: WorkflowOrder,
): Omit<RunOptions, 'workflow'> {
  return {
    sessionId,
    metadata: { workflowFile: basename(file) },
    ...withoutUndefined({
      input: parseInput(input.text('input')),
      checkpointId: origin?.id,
      onDifference: readOnDifference(input),
      userId: input.text('user') ?? (env.SAVESTATE_USER || undefined), // else whose it was
    }),
  };
}

/** Runs it as the settings say; undefined if it took longer than they allow. */
async function supervise(
  context: Context,
  executor: WorkflowExecutor,
  { settings, run }: { readonly settings: FoundSettings; readonly run: RunOptions },
): Promise<WorkflowResult | undefined> {
  const { checkpointing, timeout_seconds: seconds } = settings.config.workflow;
  const limit = timeLimitOf(settings);
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
    const next = (await context.keepsRuns())
      ? `Finished steps are kept; continue with: ${context.command('continue', run.sessionId)}`
      : NOT_KEPT;
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
function describeWorkflow(output: RunOutput, flags: string): string {
  const steps = output.steps.map(({ path, status }) => `${status.padEnd(7)}  ${path}\n`).join('');
  return `${steps}${describeEnd(output, flags)}`;
}

/** Without a checkpoint nothing was kept, and nothing can be continued. */
function describeEnd(run: RunOutput, flags: string): string {
  const { sessionId, status, output, failure, questions, timers, checkpointId } = run;
  const { goOn } = commandWords(sessionId, flags);
  const next = (words: string): string => (checkpointId === null ? '' : `${words}\n`);
  switch (status) {
    case 'completed':
      return `${typeof output === 'string' ? output : JSON.stringify(output, undefined, 2)}\n`;
    case 'failed':
      return `Failed at ${failure?.path}: ${failure?.message}\n${next(`Try again with: ${goOn}`)}`;
    case 'waiting':
      return [
        ...questions.map(
          ({ id, text, choices }) =>
            `Waiting: ${text} (${choices.join(', ')})\n${next(`Answer with: ${goOn} --answer '${id}=...'`)}`,
        ),
        ...timers.map(({ path, at }) => `${path} waits until ${formatTime(new Date(at))} UTC.\n`),
      ].join('');
  }
}
