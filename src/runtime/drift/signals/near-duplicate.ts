import type { Signal } from '../step/signal.ts';
import { REPEAT_NATS, redundancyOf } from './redundancy.ts';

/** Speaks when an agent makes nearly the same call again, in other words or another order, and learns little by it. */
export function createNearDuplicate(): Signal {
  return {
    name: 'near-duplicate',
    kind: 'loop',
    observe({ reading }) {
      if (reading?.twin === undefined || reading.hasEqualInput) return undefined;
      const nats = REPEAT_NATS * redundancyOf(reading);
      if (nats <= 0) return undefined;
      const { step, twin, similarity } = reading;
      const outcome = step.isError ? 'fails' : 'adds little to it';
      return {
        agent: step.agent,
        nats,
        steps: [twin.index, step.index],
        reason: `The call of "${step.name}" is ${Math.round(similarity * 100)} % the same as an earlier one and ${outcome}.`,
      };
    },
    snapshot: () => undefined,
  };
}
