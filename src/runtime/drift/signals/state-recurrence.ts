import { createHash } from 'node:crypto';
import type { ReadEvent } from '../drift-event.ts';
import type { Signal } from '../signal.ts';

/** Two of them pass the odds of 100 to 1: once may be a retry, twice is a loop. */
const RECURRENCE_NATS = 2.5;
/** Visits that are remembered; a loop may be this many steps long. */
const MAX_VISITS = 512;

type Visit = readonly [key: string, index: number];
type RecurrenceState = { readonly visits: readonly Visit[] };

/**
 * Speaks when an agent does the same thing in the same state again. Nothing it did in between has changed anything, however
 * different its words were: an exact witness of a loop, for events that carry the digest of a checkpoint.
 */
export function createStateRecurrence(state?: unknown): Signal {
  const visits = new Map<string, number>((state as RecurrenceState | undefined)?.visits);
  return {
    name: 'state-recurrence',
    kind: 'loop',
    observe({ event }) {
      const key = keyOf(event);
      if (key === undefined) return undefined;
      const before = visits.get(key);
      visits.delete(key);
      visits.set(key, event.index);
      if (visits.size > MAX_VISITS) forgetOldest(visits);
      if (before === undefined) return undefined;
      return {
        agent: event.agent,
        nats: RECURRENCE_NATS,
        steps: [before, event.index],
        reason: `The state is exactly what it was at event ${before}, and so is what ${event.agent} does in it: nothing in between changed anything.`,
      };
    },
    snapshot: (): RecurrenceState => ({ visits: [...visits] }),
  };
}

function forgetOldest(visits: Map<string, number>): void {
  for (const key of visits.keys()) {
    visits.delete(key);
    return;
  }
}

/** Only calls act: an agent that talks, or waits through cycles in which nothing comes, may stay as it is. */
function keyOf(event: ReadEvent): string | undefined {
  if (event.stateDigest === undefined || event.kind !== 'call') return undefined;
  const input = canonicalText(event.input);
  if (input === undefined) return undefined;
  const act = createHash('sha256').update(`${event.name}\n${input}`).digest('base64');
  return `${event.agent}\n${event.stateDigest}\n${act}`;
}

/** JSON with its keys in order; undefined for what JSON cannot hold, which is then no witness. */
function canonicalText(value: unknown): string | undefined {
  try {
    // Without a replacer cycles are found; with one that copies, they would not be.
    if (JSON.stringify(value) === undefined) return value === undefined ? 'undefined' : undefined;
    return JSON.stringify(value, (_key, part: unknown) => (isRecord(part) ? sortKeys(part) : part));
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sortKeys(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}
