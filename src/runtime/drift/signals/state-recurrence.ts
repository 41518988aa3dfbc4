import { boundedJson, sortFields } from '../step/bounded-json.ts';
import { shortDigest } from '../step/bounded-text.ts';
import type { ReadEvent } from '../step/drift-event.ts';
import { remember } from '../step/remember.ts';
import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Two of them pass the odds of 100 to 1: once may be a retry, twice is a loop. */
const RECURRENCE_NATS = 2.5;
/** Visits that are remembered; a loop may be this many steps long. */
const MAX_VISITS = 512;

/**
 * Speaks when an agent does the same thing in the same state again. Nothing it did in between has changed anything, however
 * different its words were: an exact witness of a loop, for events that carry the digest of a checkpoint.
 */
export function createStateRecurrence(state?: SignalStates['state-recurrence']): Signal {
  const visits = new Map(state?.visits);
  return {
    name: 'state-recurrence',
    kind: 'loop',
    observe({ event }) {
      const key = keyOf(event);
      if (key === undefined) return undefined;
      const before = visits.get(key);
      remember(visits, [key, event.index], MAX_VISITS);
      if (before === undefined) return undefined;
      const reason = `The state is exactly what it was at event ${before}, and so is what ${event.agent} does in it: nothing in between changed anything.`;
      return { agent: event.agent, nats: RECURRENCE_NATS, steps: [before, event.index], reason };
    },
    snapshot: () => ({ visits: [...visits] }),
  };
}

/** Only calls act: an agent that talks, or waits through cycles in which nothing comes, may stay as it is. */
function keyOf({ kind, agent, name, input, stateDigest }: ReadEvent): string | undefined {
  if (stateDigest === undefined || kind !== 'call') return undefined;
  const written = input === undefined ? 'undefined' : boundedJson(input, sortFields);
  // What JSON cannot hold is no witness.
  return written === undefined ? undefined : shortDigest(JSON.stringify([agent, stateDigest, name, written]));
}
