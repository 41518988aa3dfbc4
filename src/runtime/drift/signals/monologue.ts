import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Two of them pass the odds of 100 to 1: nothing happened in between that could excuse saying it again. */
const MONOLOGUE_NATS = 2.4;
const MIN_SIMILARITY = 0.6;

/** Speaks when an agent says the same again although nothing has happened and nobody else has spoken. */
export function createMonologue(state?: SignalStates['monologue']): Signal {
  let speaker = state?.speaker;
  return {
    name: 'monologue',
    kind: 'loop',
    observe({ event, reading }) {
      const before = speaker;
      speaker = event.kind === 'message' || event.kind === 'thought' ? event.agent : undefined;
      if (reading?.twin === undefined || reading.step.kind !== 'message' || reading.distance !== 1) return undefined;
      if (before !== event.agent || reading.similarity < MIN_SIMILARITY) return undefined;
      const share = (reading.similarity - MIN_SIMILARITY) / (1 - MIN_SIMILARITY);
      const reason = `${event.agent} says ${Math.round(reading.similarity * 100)} % the same again, and nothing happened in between.`;
      return { agent: event.agent, nats: MONOLOGUE_NATS * share, steps: [reading.twin.index, event.index], reason };
    },
    snapshot: () => ({ speaker }),
  };
}
