import { remember } from '../step/remember.ts';
import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Of ten steps of an agent that is lost seven fail; of a healthy one, one or two. Wald's ratio of the two, per step. */
const LOST_ERROR_RATE = 0.7;
const HEALTHY_ERROR_RATE = 0.15;
const ERROR_NATS = Math.log(LOST_ERROR_RATE / HEALTHY_ERROR_RATE);
const SUCCESS_NATS = Math.log((1 - LOST_ERROR_RATE) / (1 - HEALTHY_ERROR_RATE));
const MAX_AGENTS = 64;

/** Speaks when an agent's steps fail more often than a healthy agent's. */
export function createErrorRate(state?: SignalStates['error-rate']): Signal {
  const lastErrors = new Map(state?.lastErrors);
  return {
    name: 'error-rate',
    kind: 'error',
    observe({ event, reading }) {
      if (reading === undefined || !reading.isComplete) return undefined;
      const { step } = reading;
      // A call without a result says nothing of its success.
      if (step.kind === 'call' && step.result === undefined) return undefined;
      const before = lastErrors.get(step.agent);
      if (!step.isError) {
        // Talking about failed calls is no success; only what failed can succeed.
        if (before !== undefined && before.kind !== step.kind) return undefined;
        return { agent: step.agent, nats: SUCCESS_NATS, steps: [step.index], reason: 'The step succeeded.' };
      }
      // Calls made at once fail at once: only a failure after a known failure shows that nothing was learnt from it.
      if (before !== undefined && step.index < before.index) return undefined;
      remember(lastErrors, [step.agent, { index: event.index, kind: step.kind }], MAX_AGENTS);
      return { agent: step.agent, nats: ERROR_NATS, steps: [step.index], reason: `The step of ${step.agent} failed.` };
    },
    snapshot: () => ({ lastErrors: [...lastErrors] }),
  };
}
