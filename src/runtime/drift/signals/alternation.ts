import type { Signal } from '../step/signal.ts';
import type { Step } from '../step/step.ts';
import type { SignalStates } from './signal-states.ts';

/** Once round three times, a cycle is no accident. */
const ROUNDS = 3;
const MAX_PERIOD = 6;
const MAX_CALLS = ROUNDS * MAX_PERIOD;
/** On top of what each repeated call says by itself. */
const CYCLE_NATS = 1.5;

type State = SignalStates['alternation'];

/** Speaks when the last calls go round in a cycle of two to six: A, B, A, B, A, B. */
export function createAlternation(state?: State): Signal {
  const calls = [...(state?.calls ?? [])];
  return {
    name: 'alternation',
    kind: 'loop',
    observe({ reading }) {
      if (reading === undefined || !reading.isComplete || reading.step.kind !== 'call') return undefined;
      const { step } = reading;
      calls.push({ index: step.index, agent: step.agent, mark: markOf(step) });
      if (calls.length > MAX_CALLS) calls.shift();
      const period = periodOf(calls);
      if (period === undefined) return undefined;
      const round = calls.slice(-ROUNDS * period);
      const reason = `The last ${round.length} calls are the same ${period}, ${ROUNDS} times over.`;
      return { agent: step.agent, nats: CYCLE_NATS, steps: round.map(({ index }) => index), reason };
    },
    snapshot: () => ({ calls: [...calls] }),
  };
}

/** Calls with different results are not the same: the cycle may be a watch on something that moves. */
function markOf(step: Step): string {
  return `${step.agent} ${step.name} ${step.input.hash} ${step.result?.hash ?? ''}`;
}

function periodOf(calls: State['calls']): number | undefined {
  for (let period = 2; period <= MAX_PERIOD; period++) {
    const from = calls.length - ROUNDS * period;
    if (from < 0) return undefined;
    const round = calls.slice(from);
    const isCycle = round.every(({ mark }, at) => at < period || mark === round[at - period]?.mark);
    // The same call throughout is a repetition, not an alternation.
    if (isCycle && new Set(round.map(({ mark }) => mark)).size > 1) return period;
  }
  return undefined;
}
