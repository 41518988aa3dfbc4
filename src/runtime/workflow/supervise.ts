import { hasErrorCode } from '../../core/errors.ts';
import { sleep } from '../../manager/ports.ts';
import type { CheckpointingSettings } from '../config/config-schema.ts';
import type { RunOptions, WorkflowResult } from './executor-options.ts';
import type { WorkflowExecutor } from './workflow-executor.ts';

/** How a run is kept going. */
export type SuperviseOptions = {
  /** As in `workflow.checkpointing`; without `auto_resume_on_failure: true` a run is run once. */
  readonly settings: Pick<
    CheckpointingSettings,
    'auto_resume_on_failure' | 'auto_resume_limit' | 'auto_resume_backoff_seconds'
  >;
  /** Told before each pause. */
  readonly onRetry?: (retry: { readonly attempt: number; readonly pauseMs: number; readonly error: unknown }) => void;
};

/**
 * Why a supervised run is over. `deterministic`: the same step failed in the same way every time, so trying further cannot help;
 * `exhausted`: it failed in different ways until the limit.
 */
export type SupervisedResult = WorkflowResult & {
  readonly attempts: number;
  readonly verdict: 'completed' | 'waiting' | 'failed' | 'deterministic' | 'exhausted';
};

type Tried = { readonly result?: WorkflowResult; readonly error?: unknown; readonly mark: string };

const MAX_PAUSE_MS = 300_000;
const SECOND_MS = 1_000;

/** Runs a workflow, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function superviseWorkflow(
  executor: WorkflowExecutor,
  options: RunOptions,
  { settings, onRetry }: SuperviseOptions,
): Promise<SupervisedResult> {
  const { ports } = executor.manager.engine;
  const limit = settings.auto_resume_on_failure ? settings.auto_resume_limit : 0;
  const marks = new Set<string>();
  let from = withPlace(options, () => `run-${ports.nextId().slice(4)}`);
  for (let attempt = 1; ; attempt++) {
    const tried = await tryOnce(executor, from);
    marks.add(tried.mark);
    if (isOver(tried, attempt, limit)) return report(tried, attempt, marks.size);
    from = goOn(from, tried);
    const pauseMs = Math.min(MAX_PAUSE_MS, settings.auto_resume_backoff_seconds * SECOND_MS * 2 ** (attempt - 1));
    onRetry?.({ attempt, pauseMs, error: tried.error ?? tried.result?.failure?.error });
    await sleep(ports, pauseMs, options.signal);
  }
}

/** A run without a name gets one now, so that it can be found again. */
function withPlace(options: RunOptions, nextName: () => string): RunOptions {
  const isPlaced = options.sessionId !== undefined || options.checkpointId !== undefined;
  return isPlaced ? options : { ...options, sessionId: nextName() };
}

function isOver({ result }: Tried, attempt: number, limit: number): boolean {
  if (result !== undefined && result.status !== 'failed') return true;
  return attempt > limit || result?.failure?.isFinal === true;
}

function goOn(from: RunOptions, { result }: Tried): RunOptions {
  return result === undefined ? from : { ...from, sessionId: result.sessionId, checkpointId: result.checkpointId };
}

/** A storage that fails is worth another try; what the caller did wrong, or another process took over, is not. */
async function tryOnce(executor: WorkflowExecutor, options: RunOptions): Promise<Tried> {
  try {
    const result = await executor.run(options);
    return { result, mark: `${result.failure?.path} ${result.failure?.error.digest}` };
  } catch (error) {
    if (!hasErrorCode(error, 'STORAGE')) throw error;
    return { error, mark: String(error) };
  }
}

function report({ result, error }: Tried, attempts: number, kinds: number): SupervisedResult {
  if (result === undefined) throw error;
  if (result.status !== 'failed') return { ...result, attempts, verdict: result.status };
  if (attempts === 1) return { ...result, attempts, verdict: 'failed' };
  return { ...result, attempts, verdict: kinds === 1 ? 'deterministic' : 'exhausted' };
}
