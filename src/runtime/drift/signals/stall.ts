import type { Signal } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';
import type { SignalStates } from './signal-states.ts';

/** Shorter messages ("ok", "next") say nothing about a stall. */
const MIN_WORDS = 5;
/** Nats for a message that says only what was said before, against one that says only what is new. */
const NATS_PER_SHARE = 3.8;
/** A message needs this much more that is new than that is repeated to count as progress. */
const TOLERANCE = 0.2;
/** Half an alarm: one message is never enough. */
const MAX_NATS = 2.3;
/** More than can be summed up: the count begins anew. */
const RESET_NATS = -1000;

/** Agents that set tasks and are remembered for it. */
const MAX_GIVERS = 16;

/**
 * Speaks when an agent that works by talking (it makes no calls) says again what it said, with little that is new to
 * anyone. An agent that has set a task for others stands for a person ("Please go on."), and is not judged.
 */
export function createStall(state?: SignalStates['stall']): Signal {
  let { givers, hasTakers } = state ?? { givers: [], hasTakers: false };
  return {
    name: 'stall',
    kind: 'stall',
    observe({ event, reading }) {
      if (event.kind === 'goal' && event.isAgent) givers = [...new Set([event.agent, ...givers])].slice(0, MAX_GIVERS);
      if (reading === undefined) return undefined;
      const { agent, index, kind } = reading.step;
      const isGiver = givers.includes(agent);
      hasTakers ||= givers.length > 0 && !isGiver;
      // An agent that acts is judged by its acts.
      if (kind === 'call') return { agent, nats: RESET_NATS, steps: [index], reason: 'It acts.' };
      if (!saysSomething(reading) || (isGiver && hasTakers)) return undefined;
      return { agent, nats: natsOf(reading), steps: stepsOf(reading), reason: reasonOf(reading) };
    },
    snapshot: () => ({ givers, hasTakers }),
  };
}

function saysSomething({ step }: StepReading): boolean {
  return step.name === 'message' && step.input.wordCount >= MIN_WORDS;
}

function natsOf({ similarity, step }: StepReading): number {
  const share = similarity - step.inputNovelty + TOLERANCE;
  return Math.max(-MAX_NATS, Math.min(MAX_NATS, NATS_PER_SHARE * share));
}

function stepsOf({ step, twin }: StepReading): readonly number[] {
  return twin === undefined ? [step.index] : [twin.index, step.index];
}

function reasonOf({ step, similarity }: StepReading): string {
  return `${step.agent} repeats ${Math.round(similarity * 100)} % of an earlier message, and only ${Math.round(step.inputNovelty * 100)} % of this one is new.`;
}
