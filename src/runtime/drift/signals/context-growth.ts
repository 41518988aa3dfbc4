import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** From here on models lose what is in the middle of their context. */
const CROWDED_SHARE = 0.8;
const CROWDED_NATS = 0.6;
/** A context that shrinks by this much was cut or condensed. */
const CUT_SHARE = 0.7;
/** Cuts that follow each other within so many sizes show that the context fills up faster than work gets done. */
const MAX_SIZES_BETWEEN_CUTS = 12;
const CUT_NATS = 1.6;
const ROOMY_NATS = -0.3;

/** Speaks when the context is nearly full, or is condensed again soon after it was. Needs `contextTokens`. */
export function createContextGrowth(contextLimitTokens: number, state?: SignalStates['context-growth']): Signal {
  let memory = state ?? { tokens: 0, sizesSinceCut: Number.MAX_SAFE_INTEGER, cutIndex: undefined };
  return {
    name: 'context-growth',
    kind: 'context',
    observe({ event }) {
      const tokens = event.contextTokens;
      if (tokens === undefined) return undefined;
      const before = memory;
      const wasCut = tokens < before.tokens * CUT_SHARE;
      memory = {
        tokens,
        sizesSinceCut: wasCut ? 0 : Math.min(before.sizesSinceCut + 1, Number.MAX_SAFE_INTEGER),
        cutIndex: wasCut ? event.index : before.cutIndex,
      };
      if (wasCut && before.cutIndex !== undefined && before.sizesSinceCut <= MAX_SIZES_BETWEEN_CUTS) {
        const reason = `The context was cut from ${before.tokens} to ${tokens} tokens, only ${before.sizesSinceCut + 1} events after the last cut.`;
        return { agent: event.agent, nats: CUT_NATS, steps: [before.cutIndex, event.index], reason };
      }
      const share = tokens / contextLimitTokens;
      const reason = `The context holds ${tokens} of ${contextLimitTokens} tokens.`;
      if (share >= CROWDED_SHARE) return { agent: event.agent, nats: CROWDED_NATS, steps: [event.index], reason };
      // Between two quick cuts the context is roomy by construction; that is no relief.
      const isRelief = memory.sizesSinceCut > MAX_SIZES_BETWEEN_CUTS;
      return isRelief ? { agent: event.agent, nats: ROOMY_NATS, steps: [event.index], reason } : undefined;
    },
    snapshot: () => memory,
  };
}
