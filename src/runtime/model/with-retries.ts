import { withoutUndefined } from '../../core/defined.ts';
import type { ModelError } from '../../core/errors.ts';
import { checkOptions, type OptionChecks, wholeFrom } from '../../core/options.ts';
import { backoff, spread } from '../../core/time/backoff.ts';
import { MAX_DELAY_MS, setProcessTimer, sleep as sleepBy } from '../../core/time/timer.ts';
import type { CallOptions, ChatModel, ModelReply, ModelRequest } from './chat-model.ts';
import { isRetryable, withDetails } from './model-failure.ts';

/** How often to ask a model, and how long to wait in between. */
export type RetryPolicy = {
  /** All attempts, the first included. */
  readonly maxAttempts?: number;
  /** The longest wait before the second attempt; doubled for each one after. */
  readonly initialDelayMs?: number;
  /** No wait is longer. A server that wants more is not asked again. */
  readonly maxDelayMs?: number;
};

/** What retries need from outside; given by tests. */
export type RetryPorts = {
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** A number in [0, 1). */
  readonly random?: () => number;
};

const POLICY: OptionChecks<RetryPolicy> = {
  maxAttempts: wholeFrom(1),
  initialDelayMs: wholeFrom(0),
  maxDelayMs: wholeFrom(0),
};

/** As in OpenAI's own clients: two retries. Beyond a minute a run is better stopped and resumed. */
const DEFAULTS = { maxAttempts: 3, initialDelayMs: 500, maxDelayMs: 60_000 } as const;

/**
 * Asks again after failures that may pass: busy and broken servers, timeouts, lost connections, replies that cannot be read. A
 * ModelError says after how many attempts it gave up; errors that are not the provider's, and the caller's abort, pass at once.
 */
export function withRetries(model: ChatModel, policy: RetryPolicy = {}, ports: RetryPorts = {}): ChatModel {
  checkOptions(policy, POLICY, 'a retry policy');
  const { maxAttempts, initialDelayMs, maxDelayMs } = { ...DEFAULTS, ...withoutUndefined(policy) };
  const { sleep = (ms, signal) => sleepBy({ setTimer: setProcessTimer }, Math.min(ms, MAX_DELAY_MS), signal) } = ports;
  const { random = Math.random } = ports;

  /** How long to wait after this failure; undefined if asking again is of no use. */
  function delayAfter(error: ModelError, attempt: number): number | undefined {
    if (attempt >= maxAttempts) return undefined;
    const ownMs = Math.round(spread(backoff(attempt, { firstMs: initialDelayMs, maxMs: maxDelayMs }), random()));
    const wantedMs = error.details.retryAfterMs;
    if (typeof wantedMs !== 'number') return ownMs;
    return wantedMs <= maxDelayMs ? Math.max(wantedMs, ownMs) : undefined;
  }

  return {
    id: model.id,
    async reply(request, options = {}) {
      for (let attempt = 1; ; attempt++) {
        const outcome = await attemptOnce(model, request, options);
        if ('reply' in outcome) return outcome.reply;
        const delayMs = delayAfter(outcome.error, attempt);
        if (delayMs === undefined) throw withDetails(outcome.error, { attempts: attempt });
        await sleep(delayMs, options.signal);
        options.signal?.throwIfAborted();
        if (outcome.hasStreamed) options.onRestart?.();
      }
    },
  };
}

type Outcome = { readonly reply: ModelReply } | { readonly error: ModelError; readonly hasStreamed: boolean };

async function attemptOnce(model: ChatModel, request: ModelRequest, options: CallOptions): Promise<Outcome> {
  const { onText } = options;
  let hasStreamed = false;
  const noting = (delta: string) => {
    hasStreamed = true;
    onText?.(delta);
  };
  try {
    return { reply: await model.reply(request, onText === undefined ? options : { ...options, onText: noting }) };
  } catch (error) {
    if (!isRetryable(error)) throw error;
    return { error, hasStreamed };
  }
}
