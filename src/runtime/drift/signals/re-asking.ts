import type { Signal } from '../signal.ts';

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
      if (reading?.twin === undefined || !reading.isComplete || !reading.step.isPlainQuestion) return undefined;
      const { step, twin, similarity, distance } = reading;
      if (reading.hasEqualInput || similarity < MIN_SIMILARITY) return undefined;
      if (!reading.isTwinAnswered || twin.isError) return undefined;
      return {
        agent: step.agent,
        nats: RE_ASKING_NATS * DECAY_PER_STEP ** Math.max(0, distance - 1),
        steps: [twin.index, step.index],
        reason: `${step.agent} asks "${step.name}" again what it has asked and been answered, in other words.`,
      };
    },
    snapshot: () => undefined,
  };
}
