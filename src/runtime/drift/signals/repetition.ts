import type { Signal } from '../step/signal.ts';
import type { Step } from '../step/step.ts';
import { REPEAT_NATS, redundancyOf } from './redundancy.ts';

/** Speaks when an agent makes the very same call again and learns nothing new by it. */
export function createRepetition(): Signal {
  return {
    name: 'repetition',
    kind: 'loop',
    observe({ reading }) {
      if (reading?.twin === undefined || !reading.hasEqualInput) return undefined;
      const nats = REPEAT_NATS * redundancyOf(reading);
      if (nats <= 0) return undefined;
      const { step, twin } = reading;
      return { agent: step.agent, nats, steps: [twin.index, step.index], reason: reasonOf(step, twin) };
    },
    snapshot: () => undefined,
  };
}

function reasonOf(step: Step, twin: Step): string {
  const call = `The call of "${step.name}" is the same as before`;
  if (step.isError) return `${call} and fails${twin.isError ? ' again' : ''}.`;
  if (step.resultNovelty === undefined) return `${call}.`;
  return `${call}, and ${Math.round((1 - step.resultNovelty) * 100)} % of its result was already known.`;
}
