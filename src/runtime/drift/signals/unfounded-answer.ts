import { isFinishing } from '../step/drift-event.ts';
import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Enough by itself: an agent that had tools and a plan, and learnt nothing, answers from nowhere. */
const UNFOUNDED_NATS = 5;

/** New words that tools must have returned before an answer is believed. */
const MIN_FOUND_WORDS = 40;

/**
 * Speaks when an agent hands in its answer although everything its tools returned held fewer than 40 words that
 * were not already in the task or its own mouth: what it was told to find out, it has made up. Silent for agents that had
 * neither a plan nor tools.
 */
export function createUnfoundedAnswer(state?: SignalStates['unfounded-answer']): Signal {
  let { foundWords, hasPlan, hasActed } = state ?? { foundWords: 0, hasPlan: false, hasActed: false };
  return {
    name: 'unfounded-answer',
    kind: 'goal',
    observe({ event, reading }) {
      foundWords += reading?.foundWords ?? 0;
      if (event.kind === 'plan') hasPlan = true;
      if (!isFinishing(event)) {
        if (event.kind === 'call') hasActed = true;
        return undefined;
      }
      if (!hasPlan || !hasActed || foundWords >= MIN_FOUND_WORDS) return undefined;
      const reason = `${event.agent} answers, but its tools have told it only ${Math.round(foundWords)} words that were not in the task or its own texts.`;
      return { agent: event.agent, nats: UNFOUNDED_NATS, steps: [event.index], reason };
    },
    snapshot: () => ({ foundWords, hasPlan, hasActed }),
  };
}
