import { z } from 'zod';
import { keepRecent } from '../../../core/keep-recent.ts';
import { count, mapOf, signal, text } from '../step/signal.ts';
import type { Step, StepReading } from '../step/step.ts';

/** Agents whose last failures are remembered. */
const MAX_AGENTS = 64;
/** Of ten steps of an agent that is lost seven fail; of a healthy one, two: four failures in a row are an alarm, three may be bad luck. Wald's ratio. */
const LOST_ERROR_RATE = 0.7;
const HEALTHY_ERROR_RATE = 0.2;
const ERROR_NATS = Math.log(LOST_ERROR_RATE / HEALTHY_ERROR_RATE);
const SUCCESS_NATS = Math.log((1 - LOST_ERROR_RATE) / (1 - HEALTHY_ERROR_RATE));

/** Ways of failing that are remembered of an agent, to know a tool that is down for job after job. */
const MAX_FAILURES = 8;

const lastError = z.object({
  index: count,
  kind: z.enum(['call', 'message']),
  failures: z.array(z.object({ job: text, what: text })),
});

/** Speaks when an agent's steps fail more often than a healthy agent's. */
export const errorRate = signal({
  kind: 'error',
  memory: {
    form: z.object({ lastErrors: mapOf(lastError) }),
    begin: () => ({ lastErrors: new Map() }),
  },
  observe({ event, reading }, { lastErrors }) {
    if (reading === undefined || !hasOutcome(reading)) return undefined;
    const { agent, index, isError, kind } = reading.step;
    const before = lastErrors.get(agent) ?? NO_ERROR;
    const isNews = before === NO_ERROR || isNewsAfter(before, reading);
    // Calls made at once fail at once: only a failure after a known failure shows that nothing was learnt from it.
    if (isError && index >= before.index) {
      const failures = [...before.failures, failureOf(reading.step)].slice(-MAX_FAILURES);
      keepRecent(lastErrors, [agent, { index: event.index, kind, failures }], MAX_AGENTS);
    }
    const reason = `The step of ${agent} ${isError ? 'failed' : 'succeeded'}.`;
    return isNews ? { agent, nats: natsOf(reading), steps: [index], reason } : undefined;
  },
});

const NO_ERROR: z.infer<typeof lastError> = Object.freeze({ index: 0, kind: 'call', failures: [] });

/** Whether the same call failed before: what it is worth to make it again is judged as a repetition. */
function hasFailedBefore({ hasEqualInput, twin }: StepReading): boolean {
  return hasEqualInput && twin?.isError === true;
}

/** A retry that succeeds makes its failure good. */
function natsOf(reading: StepReading): number {
  if (reading.step.isError) return ERROR_NATS;
  return hasFailedBefore(reading) ? -ERROR_NATS : SUCCESS_NATS;
}

function failureOf({ job, name, result }: Step): { job: string; what: string } {
  return { job, what: `${name} ${result?.frame ?? ''}` };
}

type LastError = z.infer<typeof lastError>;

/** A call without a result says nothing of its success. */
function hasOutcome({ isComplete, step }: StepReading): boolean {
  return isComplete && (step.kind === 'message' || step.result !== undefined);
}

/**
 * Whether a step says something after a failure. Talking about failed calls is no success: only what failed can succeed. The
 * same failure again is the same one: a call that is repeated is judged as a repetition, and a tool that is down is not the agent's doing.
 */
function isNewsAfter(before: LastError, reading: StepReading): boolean {
  const { isError, index, kind } = reading.step;
  if (!isError) return before.kind === kind;
  const { job, what } = failureOf(reading.step);
  const isDown = before.failures.some((failure) => failure.what === what && failure.job !== job);
  return index >= before.index && !hasFailedBefore(reading) && !isDown;
}

/** From here on models lose what is in the middle of their context. */
const CROWDED_SHARE = 0.8;
const CROWDED_NATS = 0.6;
/** A context that shrinks by this much was cut or condensed. */
const CUT_SHARE = 0.7;
/** Cuts that follow each other within so many sizes show that the context fills up faster than work gets done. */
const MAX_SIZES_BETWEEN_CUTS = 12;
const CUT_NATS = 1.6;
const ROOMY_NATS = -0.3;

const contextSizes = z.object({ tokens: z.number(), sizesSinceCut: count, cutIndex: count.optional() });

/** Speaks when the context is nearly full, or is condensed again soon after it was. Needs `contextTokens`. */
export const contextGrowth = signal({
  kind: 'context',
  memory: {
    form: contextSizes,
    begin: () => ({ tokens: 0, sizesSinceCut: Number.MAX_SAFE_INTEGER, cutIndex: undefined }),
  },
  observe({ event, options: { contextLimitTokens } }, memory) {
    const { agent, index, contextTokens: tokens } = event;
    if (tokens === undefined) return undefined;
    const before = { ...memory };
    const wasCut = tokens < before.tokens * CUT_SHARE;
    memory.tokens = tokens;
    memory.sizesSinceCut = wasCut ? 0 : Math.min(before.sizesSinceCut + 1, Number.MAX_SAFE_INTEGER);
    if (wasCut) memory.cutIndex = index;
    if (wasCut && before.cutIndex !== undefined && before.sizesSinceCut <= MAX_SIZES_BETWEEN_CUTS) {
      const reason = `The context was cut from ${before.tokens} to ${tokens} tokens, only ${before.sizesSinceCut + 1} events after the last cut.`;
      return { agent, nats: CUT_NATS, steps: [before.cutIndex, index], reason };
    }
    const reason = `The context holds ${tokens} of ${contextLimitTokens} tokens.`;
    if (tokens / contextLimitTokens >= CROWDED_SHARE) return { agent, nats: CROWDED_NATS, steps: [index], reason };
    // Between two quick cuts the context is roomy by construction; that is no relief.
    const isRelief = memory.sizesSinceCut > MAX_SIZES_BETWEEN_CUTS;
    return isRelief ? { agent, nats: ROOMY_NATS, steps: [index], reason } : undefined;
  },
});
