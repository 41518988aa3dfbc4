import { withoutUndefined } from '../../core/defined.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { Optional, OptionChecks } from '../../core/options.ts';
import * as is from '../../core/options.ts';
import { backoff } from '../../core/time/backoff.ts';
import { sleep } from '../../core/time/timer.ts';
import type { ManagerPorts } from '../../manager/engine/engine.ts';
import { type CheckpointingSettings, checkpointingSchema } from '../config/config-schema.ts';

/** How a run is kept going. */
export type SuperviseOptions = {
  /** As in `workflow.checkpointing`; without `auto_resume_on_failure: true` it is run once. */
  readonly settings: Optional<
    Pick<CheckpointingSettings, 'auto_resume_on_failure' | 'auto_resume_limit' | 'auto_resume_backoff_seconds'>
  >;
  /** Told before each pause. */
  readonly onRetry?: (retry: { readonly attempt: number; readonly pauseMs: number; readonly error: unknown }) => void;
  readonly signal?: AbortSignal | undefined;
};

/** What every supervision accepts; of the settings all of `workflow.checkpointing`. */
export const SUPERVISE: OptionChecks<SuperviseOptions> = {
  settings: {
    required: is.options({
      ...Object.fromEntries(Object.keys(checkpointingSchema.shape).map((key) => [key, is.anything])),
      auto_resume_on_failure: is.flag,
      auto_resume_limit: is.wholeFrom(0),
      auto_resume_backoff_seconds: is.accepts(
        'a number of 0 or more',
        (value) => typeof value === 'number' && value >= 0,
      ),
    }),
  },
  onRetry: is.callback,
  signal: is.signal,
};

/**
 * Why a supervised run is over. `deterministic`: it failed in the same way every time, so trying further cannot help; `exhausted`: it
 * failed in different ways until the limit.
 */
export type Supervised<Result extends { readonly status: string }> = Result & {
  readonly attempts: number;
  readonly verdict: Result['status'] | 'failed' | 'deterministic' | 'exhausted';
};

/** What went wrong in an attempt. */
export type Failure = {
  readonly error: unknown;
  /** The same for failures of the same kind. */
  readonly mark: string;
  /** Whether trying again cannot help. */
  readonly isFinal?: boolean;
};

/** What is supervised. */
export type Supervision<Result> = SuperviseOptions & {
  readonly ports: ManagerPorts;
  /** Begins the run, or resumes what the attempt before came to; that is undefined if it could not be stored. */
  readonly attempt: (before: Result | undefined) => Promise<Result>;
  readonly failureOf: (result: Result) => Failure | undefined;
  /** Whether what an attempt throws is worth another one; default: failures of the storage. What the caller did wrong, or another process took over, is not. */
  readonly isPassing?: (error: unknown) => boolean;
};

type Tried<Result> = { readonly result?: Result; readonly failure?: Failure | undefined };

/** As in YAML. */
const DEFAULTS = { auto_resume_on_failure: false, auto_resume_limit: 3, auto_resume_backoff_seconds: 1 };
const MAX_PAUSE_MS = 300_000;
const SECOND_MS = 1_000;

/** Runs something, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function supervise<Result extends { readonly status: string }>(
  supervision: Supervision<Result>,
): Promise<Supervised<Result>> {
  const { settings, onRetry, signal, ports } = supervision;
  const said = { ...DEFAULTS, ...withoutUndefined(settings) };
  const limit = said.auto_resume_on_failure ? said.auto_resume_limit : 0;
  const marks = new Set<string>();
  let before: Result | undefined;
  for (let attempt = 1; ; attempt++) {
    const tried = await tryOnce(supervision, before);
    const { failure } = tried;
    if (failure !== undefined) marks.add(failure.mark);
    if (failure === undefined || failure.isFinal === true || attempt > limit) return judge(tried, attempt, marks.size);
    before = tried.result ?? before;
    const firstMs = said.auto_resume_backoff_seconds * SECOND_MS;
    const pauseMs = backoff(attempt, { firstMs, maxMs: MAX_PAUSE_MS });
    onRetry?.({ attempt, pauseMs, error: failure.error });
    await sleep(ports, pauseMs, signal);
  }
}

async function tryOnce<Result>(
  { attempt, failureOf, isPassing = (error) => hasErrorCode(error, 'STORAGE') }: Supervision<Result>,
  before: Result | undefined,
): Promise<Tried<Result>> {
  try {
    const result = await attempt(before);
    return { result, failure: failureOf(result) };
  } catch (error) {
    if (!isPassing(error)) throw error;
    return { failure: { error, mark: String(error) } };
  }
}

function judge<Result extends { readonly status: string }>(
  { result, failure }: Tried<Result>,
  attempts: number,
  kinds: number,
): Supervised<Result> {
  if (result === undefined) throw failure?.error;
  if (failure === undefined || attempts === 1) return { ...result, attempts, verdict: result.status };
  return { ...result, attempts, verdict: kinds === 1 ? 'deterministic' : 'exhausted' };
}
