import { hasErrorCode } from '../../core/errors.ts';
import { sleep } from '../../manager/ports.ts';
import type { CheckpointingSettings } from '../config/config-schema.ts';
import type { FleetRunResult } from './fleet-run.ts';
import type { FleetRunner } from './fleet-runner.ts';

/** How a fleet is kept going. */
export type SuperviseFleetOptions = {
  readonly task: string;
  /** As in `workflow.checkpointing`; without `auto_resume_on_failure: true` it is run once. */
  readonly settings: Pick<
    CheckpointingSettings,
    'auto_resume_on_failure' | 'auto_resume_limit' | 'auto_resume_backoff_seconds'
  >;
  /** Told before each pause. */
  readonly onRetry?: (retry: { readonly attempt: number; readonly pauseMs: number; readonly error: unknown }) => void;
  readonly signal?: AbortSignal;
};

/**
 * Why a supervised fleet is over. `deterministic`: it failed in the same way every time, so trying further cannot help; `exhausted`: it
 * failed in different ways until the limit.
 */
export type SupervisedFleetResult = FleetRunResult & {
  readonly attempts: number;
  readonly verdict: FleetRunResult['status'] | 'deterministic' | 'exhausted';
};

type Tried = { readonly result?: FleetRunResult; readonly error: unknown };

const MAX_PAUSE_MS = 300_000;
const SECOND_MS = 1_000;

/** Lets a fleet work, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function superviseFleet(
  runner: FleetRunner,
  { task, settings, onRetry, signal }: SuperviseFleetOptions,
): Promise<SupervisedFleetResult> {
  const { ports } = runner.checkpoints.engine;
  const limit = settings.auto_resume_on_failure ? settings.auto_resume_limit : 0;
  const kinds = new Set<string>();
  for (let attempt = 1; ; attempt++) {
    const tried = await tryOnce(runner, task);
    const { result, error } = tried;
    if (result !== undefined && result.status !== 'failed')
      return { ...result, attempts: attempt, verdict: result.status };
    kinds.add(String(error));
    if (attempt > limit) return report(tried, attempt, kinds.size);
    const pauseMs = Math.min(MAX_PAUSE_MS, settings.auto_resume_backoff_seconds * SECOND_MS * 2 ** (attempt - 1));
    onRetry?.({ attempt, pauseMs, error });
    await sleep(ports, pauseMs, signal);
  }
}

/** A storage that fails is worth another try; what the caller did wrong, or another process took over, is not. */
async function tryOnce(runner: FleetRunner, task: string): Promise<Tried> {
  try {
    const result = await runner.runOrResume({ task });
    return { result, error: result.status === 'failed' ? result.error : undefined };
  } catch (error) {
    if (!hasErrorCode(error, 'STORAGE')) throw error;
    return { error };
  }
}

function report({ result, error }: Tried, attempts: number, kinds: number): SupervisedFleetResult {
  if (result === undefined) throw error;
  if (attempts === 1) return { ...result, attempts, verdict: 'failed' };
  return { ...result, attempts, verdict: kinds === 1 ? 'deterministic' : 'exhausted' };
}
