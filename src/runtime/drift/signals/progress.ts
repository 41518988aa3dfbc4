import type { Signal } from '../step/signal.ts';
import { redundancyOf } from './redundancy.ts';

/** What a step that repeats nothing takes back. */
const PROGRESS_NATS = 0.33;
const MAX_SIMILARITY = 0.6;

/** Speaks against a loop: a completed step that repeats nothing. */
export function createProgress(): Signal {
  return {
    name: 'progress',
    kind: 'loop',
    observe({ reading }) {
      if (reading === undefined || !reading.isComplete || reading.step.name === 'plan') return undefined;
      // Saying it again is no progress, even where it is no loop.
      if (reading.step.kind === 'message' && reading.similarity >= MAX_SIMILARITY) return undefined;
      const redundancy = Math.min(1, redundancyOf(reading));
      if (redundancy === 1) return undefined;
      const { step } = reading;
      const reason = 'The step is not a repetition.';
      return { agent: step.agent, nats: -PROGRESS_NATS * (1 - redundancy), steps: [step.index], reason };
    },
  };
}
