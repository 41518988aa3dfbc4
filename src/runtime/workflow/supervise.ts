import { checkOptions, checkValue, having } from '../../core/options.ts';
import { SUPERVISE, type Supervised, type SuperviseOptions as Supervision, supervise } from '../run/supervise.ts';
import { checkRun, type RunOptions, type WorkflowResult } from './executor-options.ts';
import type { WorkflowExecutor } from './workflow-executor.ts';

/** How a run is kept going. */
export type SuperviseOptions = Omit<Supervision, 'signal'>;

/** What came of a supervised run. */
export type SupervisedResult = Supervised<WorkflowResult>;

/** Runs a workflow, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function superviseWorkflow(
  executor: WorkflowExecutor,
  options: RunOptions,
  supervision: SuperviseOptions,
): Promise<SupervisedResult> {
  checkValue(executor, having('run', 'recover'), 'The executor of superviseWorkflow()');
  checkRun(options);
  const { signal: _, ...checks } = SUPERVISE;
  checkOptions(supervision, checks, 'superviseWorkflow()');
  const { ports } = executor.manager.engine;
  // A run without a name gets one now, so that it can be found again.
  const isPlaced = options.sessionId !== undefined || options.checkpointId !== undefined;
  const from = isPlaced ? options : { ...options, sessionId: `run-${ports.nextId().slice(4)}` };
  return supervise<WorkflowResult>({
    ...supervision,
    signal: options.signal,
    ports,
    attempt: (before) => {
      if (before === undefined) return executor.run(from);
      const { sessionId, checkpointId } = before;
      return executor.run({ ...from, sessionId, checkpointId });
    },
    failureOf: ({ failure, status }) =>
      status === 'failed' && failure !== undefined
        ? { error: failure.error, mark: `${failure.path} ${failure.error.digest}`, isFinal: failure.isFinal }
        : undefined,
  });
}
