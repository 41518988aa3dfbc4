import { NotFoundError } from '../../core/errors.ts';
import { checkOptions, string } from '../../core/options.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { parseScope, redactWhy } from '../log/memory-input.ts';
import type { MemoryScope } from '../storage/memory-record.ts';
import type { MemoryEvent } from '../storage/memory-storage.ts';

/** What was removed, and the checkpoints whose states may hold the same words: memory cannot remove those. */
export type PurgeResult = {
  readonly purged: readonly string[];
  /** The turns that it was taken from: they still hold the words, and may say more. Purge them, too, if they are to go. */
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
  const events = typeof what === 'string' ? await eventsOfMemory(context, what) : await eventsOfScope(context, what);
  const byMemory = new Map(events.map((event) => [event.memoryId, event]));
  const purged = [...byMemory.keys()];
  const atMs = context.now();
  const tombstones = [...byMemory.values()].map(({ memoryId, scope }) => ({
    memoryId,
    operation: 'PURGE' as const,
    scope,
    atMs,
    reason,
  }));
  if (purged.length > 0) await context.storage.purge(purged, tombstones);
  return {
    purged,
    turns: [...new Set(events.flatMap(({ fields }) => fields?.derivedFrom ?? []))].filter((id) => !byMemory.has(id)),
    checkpoints: [...new Set(events.flatMap(({ place }) => place?.checkpointId || []))],
    sessions: [...new Set(events.flatMap(({ place }) => place?.sessionId ?? []))],
  };
}

async function eventsOfScope(context: MemoryContext, scope: MemoryScope): Promise<MemoryEvent[]> {
  const events = await context.storage.readEvents({ scope: parseScope(scope) });
  return events.filter(({ operation }) => operation !== 'PURGE');
}

/** A memory, what was taken from it, and the turn before it if that names it: whatever holds its words or points at it. */
async function eventsOfMemory(context: MemoryContext, id: string): Promise<MemoryEvent[]> {
  const own = await context.storage.readEvents({ memoryIds: [id] });
  const [first] = own;
  if (first === undefined || own.some(({ operation }) => operation === 'PURGE'))
    throw new NotFoundError(`There is no memory ${id} to purge.`, { details: { id } });
  const all = await context.storage.readEvents({ scope: first.scope });
  const derived = new Set([id]);
  for (const { memoryId, fields } of all)
    if (fields?.derivedFrom?.some((source) => derived.has(source))) derived.add(memoryId);
  return all.filter(({ memoryId }) => derived.has(memoryId));
}
