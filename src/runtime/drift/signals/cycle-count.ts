import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

const EXTRA_CYCLE_NATS = 0.25;

/** Speaks when more cycles have begun than the task was expected to take. Silent unless a number is expected. */
export function createCycleCount(expectedCycles: number, state?: SignalStates['cycle-count']): Signal {
  let count = state?.count ?? 0;
  return {
    name: 'cycle-count',
    kind: 'stall',
    observe({ event }) {
      if (event.kind === 'goal') count = 0;
      if (event.kind !== 'cycle') return undefined;
      count++;
      if (count <= expectedCycles) return undefined;
      const reason = `Cycle ${count} of a task that was expected to take ${expectedCycles}.`;
      return { agent: event.agent, nats: EXTRA_CYCLE_NATS, steps: [event.index], reason };
    },
    snapshot: () => ({ count }),
  };
}
