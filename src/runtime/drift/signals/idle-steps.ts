import type { ReadEvent } from '../step/drift-event.ts';
import { remember } from '../step/remember.ts';
import type { Signal, SignalFinding } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';
import type { SignalStates } from './signal-states.ts';

/** A step of which less is new than this has brought nothing. */
const MIN_NOVELTY = 0.3;
const IDLE_NATS = 0.4;
const MAX_AGENTS = 64;
/** Cycles in a row without a call that may leave a state as it was there before; more of them are evidence. */
const MAX_IDLE_CYCLES = 4;
/** An equal state is a fact, so it counts for more than a step of which little is new. */
const IDLE_CYCLE_NATS = 1.2;

/** States that are remembered: an agent may go round through as many. */
const MAX_STATES = 16;

type State = SignalStates['idle-steps'];
type Cycles = NonNullable<State['cycles']>;

/** Speaks when steps bring nothing new, or when cycles without a call leave the state exactly as it was before. */
export function createIdleSteps(maxIdleSteps: number, saved?: State): Signal {
  let cycles: Cycles = saved?.cycles ?? { count: 0, since: 0 };
  const idle = new Map<string, { count: number; since: number }>(
    saved?.idle.map(([agent, count, since]) => [agent, { count, since }]),
  );
  const judge = (reading: StepReading): SignalFinding | undefined => {
    const { step } = reading;
    if (isFruitful(reading)) {
      idle.delete(step.agent);
      return { agent: step.agent, nats: -IDLE_NATS, steps: [step.index], reason: 'The step brought something new.' };
    }
    const run = idle.get(step.agent) ?? { count: 0, since: step.index };
    remember(idle, [step.agent, { count: run.count + 1, since: run.since }], MAX_AGENTS);
    if (run.count + 1 <= maxIdleSteps) return undefined;
    const reason = `${step.agent} has made ${run.count + 1} calls since event ${run.since} that brought nothing new.`;
    return { agent: step.agent, nats: IDLE_NATS, steps: [run.since, step.index], reason };
  };
  return {
    name: 'idle-steps',
    kind: 'stall',
    observe({ event, reading }) {
      cycles = countCycles(cycles, event);
      if (event.kind === 'cycle') return cycles.count > MAX_IDLE_CYCLES ? describeCycles(cycles, event) : undefined;
      const isCall = reading?.isComplete === true && reading.step.kind === 'call';
      return isCall ? judge(reading) : undefined;
    },
    snapshot: () => ({ idle: [...idle].map(([agent, { count, since }]) => [agent, count, since]), cycles }),
  };
}

/** How many cycles in a row led nowhere new. An agent that makes calls is judged by them, and one that is spoken to may listen. */
function countCycles(cycles: Cycles, { kind, isAgent, stateDigest, index }: ReadEvent): Cycles {
  if (kind === 'call' || (kind === 'message' && !isAgent)) return { count: 0, since: index };
  if (kind !== 'cycle' || stateDigest === undefined) return cycles;
  const { states = [], count } = cycles;
  if (states.includes(stateDigest)) return { ...cycles, count: count + 1 };
  return { states: [...states, stateDigest].slice(-MAX_STATES), count: 0, since: index };
}

function describeCycles({ count, since }: Cycles, { agent, index }: ReadEvent): SignalFinding {
  const reason = `The last ${count} cycles of ${agent} changed nothing: the state is one of those up to event ${since}.`;
  return { agent, nats: IDLE_CYCLE_NATS, steps: [since, index], reason };
}

function isFruitful({ step }: StepReading): boolean {
  return (step.resultNovelty ?? step.inputNovelty) >= MIN_NOVELTY;
}
