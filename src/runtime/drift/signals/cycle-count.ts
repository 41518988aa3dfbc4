import type { Signal } from '../step/signal.ts';

const EXTRA_CYCLE_NATS = 0.25;

type CycleCountState = { readonly count: number };

/** Speaks when more cycles have begun than the task was expected to take. Silent unless a number is expected. */
export function createCycleCount(expectedCycles: number, state?: unknown): Signal {
  let count = (state as CycleCountState | undefined)?.count ?? 0;
  return {
    name: 'cycle-count',
    kind: 'stall',
    observe({ event }) {
      if (event.kind === 'goal') count = 0;
      if (event.kind !== 'cycle') return undefined;
      count++;
      if (count <= expectedCycles) return undefined;
      return {
        agent: event.agent,
        nats: EXTRA_CYCLE_NATS,
        steps: [event.index],
        reason: `Cycle ${count} of a task that was expected to take ${expectedCycles}.`,
      };
    },
    snapshot: (): CycleCountState => ({ count }),
  };
}
