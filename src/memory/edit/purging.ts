import { NotFoundError } from '../../core/errors.ts';
import { checkOptions, string } from '../../core/options.ts';
import { sinceMs } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { checkId, parseScope, redactWhy, SCOPE_CHECKS } from '../log/memory-input.ts';
import type { MemoryFields, MemoryScope } from '../storage/memory-record.ts';
import type { MemoryEvent, MemoryOperation, NewMemoryEvent } from '../storage/memory-storage.ts';
import { removeWords } from './removed-words.ts';

/** What was removed, and the checkpoints whose states may hold the same words: memory cannot remove those. */
export type PurgeResult = {
  readonly purged: readonly string[];
  /** The turns that said so among other things: they lost these words and keep the rest. */
  readonly turns: readonly string[];
  readonly checkpoints: readonly string[];
  readonly sessions: readonly string[];
};

export async function purge(
  context: MemoryContext,
  what: string | MemoryScope,
  options: { readonly reason?: string },
): Promise<PurgeResult> {
  checkOptions(options, { reason: string }, 'purge()');
  const { reason } = redactWhy(options, context.codec);
  const isOne = typeof what === 'string';
  if (isOne) checkId(what, 'purge');
  else if (what !== undefined) checkOptions(what, SCOPE_CHECKS, 'the scope of purge()');
  const all = isOne ? await eventsAround(context, what) : await eventsOfScope(context, what);
  const doomed = isOne ? derivedFrom(all, what) : new Set(all.map(({ memoryId }) => memoryId));
  const { rewritten, turns, emptied } = removeWords(all, doomed);
  const memoryIds = [...doomed, ...emptied];
  const events = all.filter(({ memoryId }) => memoryIds.includes(memoryId));
  const tombstones = memoryIds.flatMap((id) =>
    tombstonesOf(
      events.filter(({ memoryId }) => memoryId === id),
      { atMs: context.now(), reason },
    ),
  );
  if (memoryIds.length > 0) await context.storage.purge({ memoryIds, tombstones, rewritten });
  return {
    purged: memoryIds,
    turns,
    checkpoints: [...new Set(events.flatMap(({ place }) => place?.checkpointId || []))],
    sessions: [...new Set(events.flatMap(({ place }) => place?.sessionId ?? []))],
  };
}

/** What tells of no memory, or of one that is gone. */
const NO_WORDS = new Set<MemoryOperation>(['PURGE', 'STAND', 'END']);

async function eventsOfScope(context: MemoryContext, scope: MemoryScope): Promise<MemoryEvent[]> {
  const events = await context.storage.readEvents({ scope: parseScope(scope) });
  return events.filter(({ operation }) => !NO_WORDS.has(operation));
}

/** How many memories a purge of a scope would remove. */
export async function countOf(context: MemoryContext, scope: MemoryScope): Promise<number> {
  return new Set((await eventsOfScope(context, scope)).map(({ memoryId }) => memoryId)).size;
}

/** Everything that may hold the words of a memory or point at it. */
async function eventsAround(context: MemoryContext, id: string): Promise<MemoryEvent[]> {
  const own = await context.storage.readEvents({ memoryIds: [id] });
  const [first] = own;
  if (first === undefined || own.some(({ operation }) => NO_WORDS.has(operation)))
    throw new NotFoundError(`There is no memory ${id} to purge.`, { details: { id } });
  return eventsOfScope(context, first.scope);
}

/** A memory and what was taken from it. */
function derivedFrom(all: readonly MemoryEvent[], id: string): Set<string> {
  const derived = new Set([id]);
  for (const { memoryId, fields } of all)
    if (fields?.derivedFrom?.some((source) => derived.has(source))) derived.add(memoryId);
  return derived;
}

/**
 * What is left of a memory, without a word of it: the keys of its sources, so that they are not learned from again, and the slot it was
 * in, so that what it had replaced there stays over.
 */
function tombstonesOf(
  events: readonly MemoryEvent[],
  why: Pick<NewMemoryEvent, 'atMs' | 'reason'>,
): readonly NewMemoryEvent[] {
  const telling = events.filter(({ key, fields }) => key !== undefined || fields?.slot !== undefined);
  return (telling.length > 0 ? telling : events.slice(0, 1)).map(({ memoryId, scope, place, key, fields }) => {
    const slot = slotOf(fields);
    return { memoryId, operation: 'PURGE' as const, scope, place, key, ...(slot && { fields: slot }), ...why };
  });
}

function slotOf({ slot, subject, observedAtMs, ...fields }: Partial<MemoryFields> = {}) {
  if (slot === undefined || subject === undefined || observedAtMs === undefined) return undefined;
  return { slot, subject, validFromMs: sinceMs({ ...fields, observedAtMs }) };
}
