import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Durations before the usual one is known. */
const MIN_CYCLES = 8;
/** Weight of the newest duration in the moving mean: the last twenty or so count. */
const WEIGHT = 0.1;
/** Durations differ by a factor of 1.6 without meaning anything. */
const MIN_DEVIATION = 0.5;
const UNUSUAL_DEVIATIONS = 2.5;
const NATS_PER_DEVIATION = 0.8;
const MAX_NATS = 2;
const USUAL_NATS = -0.4;

type State = SignalStates['cycle-time'];

const UNKNOWN: State = { lastAt: undefined, lastIndex: 0, count: 0, mean: 0, variance: 0, hasCycles: false };

/** Speaks when cycles take much longer than they used to. Needs `at`; goes by `cycle` events, or by calls where there are none. */
export function createCycleTime(state: State = UNKNOWN): Signal {
  let memory = state;
  return {
    name: 'cycle-time',
    kind: 'time',
    observe({ event }) {
      if (event.kind === 'cycle' && !memory.hasCycles) memory = { ...UNKNOWN, hasCycles: true };
      if (event.at === undefined || event.kind !== (memory.hasCycles ? 'cycle' : 'call')) return undefined;
      const { lastAt, lastIndex } = memory;
      memory = { ...memory, lastAt: event.at, lastIndex: event.index };
      if (lastAt === undefined || event.at < lastAt) return undefined;
      const durationMs = event.at - lastAt;
      const deviations = deviationsOf(memory, durationMs);
      const usualMs = Math.expm1(memory.mean);
      memory = { ...memory, ...learn(memory, durationMs) };
      if (deviations === undefined) return undefined;
      const isUnusual = deviations > UNUSUAL_DEVIATIONS;
      const nats = isUnusual ? Math.min(MAX_NATS, NATS_PER_DEVIATION * (deviations - 1)) : USUAL_NATS;
      const reason = `The cycle took ${Math.round(durationMs)} ms; usual are about ${Math.round(usualMs)} ms.`;
      return { agent: event.agent, nats, steps: [lastIndex, event.index], reason };
    },
    snapshot: () => memory,
  };
}

function deviationsOf({ count, mean, variance }: State, durationMs: number): number | undefined {
  if (count < MIN_CYCLES) return undefined;
  return (Math.log1p(durationMs) - mean) / Math.max(MIN_DEVIATION, Math.sqrt(variance));
}

/** Durations spread over orders of magnitude, so their logarithms are averaged. */
function learn(memory: State, durationMs: number): Pick<State, 'count' | 'mean' | 'variance'> {
  const count = memory.count + 1;
  const weight = Math.max(WEIGHT, 1 / count);
  const off = limitOff(memory, Math.log1p(durationMs) - memory.mean);
  const mean = memory.mean + weight * off;
  return { count, mean, variance: (1 - weight) * (memory.variance + weight * off * off) };
}

/** One long cycle must not make the next long one usual. */
function limitOff({ count, variance }: State, off: number): number {
  if (count < MIN_CYCLES) return off;
  return Math.min(off, UNUSUAL_DEVIATIONS * Math.max(MIN_DEVIATION, Math.sqrt(variance)));
}
