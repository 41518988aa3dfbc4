import type { Signal } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';

/** Twice within a few steps passes the odds of 100 to 1: once may be a better wording. */
const RE_ASKING_NATS = 3;
const MIN_SIMILARITY = 0.65;
const DECAY_PER_STEP = 0.9;

/**
 * Speaks when an agent asks a tool the same question again in other words, hardly any of them new, although it was answered:
 * it does not use its answers. A question with a new word in it is another question, and a retry after an error is none.
 */
export function createReAsking(): Signal {
  return {
    name: 're-asking',
    kind: 'loop',
    observe({ reading }) {
      if (reading?.twin === undefined || !isReAsking(reading)) return undefined;
      const { step, twin, distance } = reading;
      const nats = RE_ASKING_NATS * DECAY_PER_STEP ** Math.max(0, distance - 1);
      const reason = `${step.agent} asks "${step.name}" again what it has asked and been answered, in other words.`;
      return { agent: step.agent, nats, steps: [twin.index, step.index], reason };
    },
  };
}

/** Whether a completed call asks again, in other words, what was asked and answered. */
export function isReAsking(reading: StepReading): boolean {
  const { step, twin, similarity } = reading;
  if (twin === undefined || !reading.isComplete || !step.isPlainQuestion) return false;
  if (reading.hasEqualInput || similarity < MIN_SIMILARITY) return false;
  return reading.isTwinAnswered && !twin.isError;
}
