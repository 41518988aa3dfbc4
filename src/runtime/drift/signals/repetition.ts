import type { Signal } from '../step/signal.ts';
import type { Step, StepReading } from '../step/step.ts';
import { REPEAT_NATS, redundancyOf } from './redundancy.ts';

type Repeated = StepReading & { readonly twin: Step };

/** Speaks when an agent makes the very same call again and learns nothing new by it. */
export function createRepetition(): Signal {
  return createRepeat('repetition', (reading) => (reading.hasEqualInput ? describeSame(reading) : undefined));
}

/** Speaks when an agent makes nearly the same call again, in other words or another order, and learns little by it. */
export function createNearDuplicate(): Signal {
  return createRepeat('near-duplicate', ({ step, similarity, hasEqualInput }) => {
    if (hasEqualInput) return undefined;
    const outcome = step.isError ? 'fails' : 'adds little to it';
    return `The call of "${step.name}" is ${Math.round(similarity * 100)} % the same as an earlier one and ${outcome}.`;
  });
}

function createRepeat(name: string, describe: (reading: Repeated) => string | undefined): Signal {
  return {
    name,
    kind: 'loop',
    observe({ reading }) {
      if (reading?.twin === undefined) return undefined;
      const { step, twin } = reading;
      const nats = REPEAT_NATS * redundancyOf(reading);
      const reason = nats <= 0 ? undefined : describe({ ...reading, twin });
      return reason === undefined ? undefined : { agent: step.agent, nats, steps: [twin.index, step.index], reason };
    },
  };
}

function describeSame({ step, twin }: Repeated): string {
  const call = `The call of "${step.name}" is the same as before`;
  if (step.isError) return `${call} and fails${twin.isError ? ' again' : ''}.`;
  if (step.resultNovelty === undefined) return `${call}.`;
  return `${call}, and ${Math.round((1 - step.resultNovelty) * 100)} % of its result was already known.`;
}
