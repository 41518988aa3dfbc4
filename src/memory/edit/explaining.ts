import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions } from '../../core/options.ts';
import { type FoldedMemory, foldMemory, toRecord } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { VIEW_CHECKS, type ViewOptions } from '../log/views.ts';
import type { MemoryRecord } from '../storage/memory-record.ts';
import type { EventPlace, MemoryEvent, MemoryOperation } from '../storage/memory-storage.ts';
import { notFound } from './editing.ts';

/** One thing that happened to a memory, on whichever branch. */
export type MemoryHistoryEntry = {
  readonly id: number;
  readonly memoryId: string;
  readonly previousValue?: string;
  readonly newValue?: string;
  readonly action: MemoryOperation | 'DELETE';
  readonly createdAt: Date;
  readonly isDeleted: boolean;
  readonly actor?: string;
  readonly reason?: string;
  readonly sessionId?: string;
  readonly branch?: string;
  readonly checkpointId?: string;
  /** Whether it counts from where one looks. */
  readonly isVisible: boolean;
};

/** What taught a memory, and what is left of it. */
export type MemorySource = {
  readonly operation: MemoryOperation;
  readonly at: Date;
  readonly sessionId?: string;
  readonly branch?: string;
  /** The checkpoint that holds it; with `isAfter`, the last one before it was learned. */
  readonly checkpointId?: string;
  readonly isAfter?: boolean;
  readonly messageId?: string;
  /** `deleted`: a tombstone is left of the checkpoint. `gone`: its session was deleted. `unknown`: there is no manager to ask. */
  readonly status: 'present' | 'deleted' | 'gone' | 'unknown' | 'none';
  readonly statusReason?: string;
  readonly isVisible: boolean;
  /** The turns it was taken from, as they were said, and where in the first of them. */
  readonly turns: readonly MemoryRecord[];
  readonly span?: readonly [start: number, end: number];
};

/** Why something is remembered. `memory` is absent when it is not visible from there. */
export type MemoryExplanation = {
  readonly id: string;
  readonly memory: MemoryRecord | undefined;
  readonly sources: readonly MemorySource[];
  readonly supersededBy?: string;
};

const TEACHING = new Set<MemoryOperation>(['ADD', 'REINFORCE', 'UPDATE', 'PROMOTE']);

export async function historyOf(
  context: MemoryContext,
  id: string,
  options: ViewOptions,
): Promise<MemoryHistoryEntry[]> {
  checkOptions(options, VIEW_CHECKS, 'history()');
  const { events, sees } = await openHistory(context, id, options);
  return events.filter(({ operation }) => operation !== 'EXTRACT').map((event) => toEntry(event, sees(event)));
}

export async function explain(context: MemoryContext, id: string, options: ViewOptions): Promise<MemoryExplanation> {
  checkOptions(options, VIEW_CHECKS, 'why()');
  const { events, sees, memory } = await openHistory(context, id, options);
  const taught = events.filter(({ operation }) => TEACHING.has(operation));
  const turns = await readTurns(context, taught);
  const sources: MemorySource[] = [];
  for (const event of taught) sources.push(await describeSource(context, event, { isVisible: sees(event), turns }));
  const supersededBy = memory?.fields.supersededBy;
  return { id, memory: memory && toRecord(memory), sources, ...(supersededBy !== undefined && { supersededBy }) };
}

async function openHistory({ views }: MemoryContext, id: string, options: ViewOptions) {
  const history = await views.history(id, (sessions) => views.open(options, sessions));
  if (history.events.length === 0) throw notFound(id, history.events);
  return history;
}

/** Turns are shown whole, also when they are not visible any more: this is about the past. */
async function readTurns(context: MemoryContext, events: readonly MemoryEvent[]): Promise<Map<string, FoldedMemory>> {
  const ids = [...new Set(events.flatMap(({ fields }) => fields?.derivedFrom ?? []))];
  const turns = new Map<string, FoldedMemory>();
  const stored = ids.length === 0 ? [] : await context.storage.readEvents({ memoryIds: ids });
  for (const id of ids) {
    const turn = foldMemory(stored.filter((event) => event.memoryId === id && TEACHING.has(event.operation)));
    if (turn !== undefined) turns.set(id, turn);
  }
  return turns;
}

async function describeSource(
  context: MemoryContext,
  { operation, atMs, place, fields }: MemoryEvent,
  { isVisible, turns }: { isVisible: boolean; turns: ReadonlyMap<string, FoldedMemory> },
): Promise<MemorySource> {
  const { checkpointId } = whereabouts(place);
  const { status, reason }: { status: MemorySource['status']; reason?: string } =
    checkpointId === undefined ? { status: 'none' } : await context.views.statusOf(checkpointId);
  return withoutUndefined({
    operation,
    at: new Date(atMs),
    ...whereabouts(place),
    isAfter: place?.isAfter,
    messageId: fields?.messageId,
    status,
    statusReason: reason,
    isVisible,
    turns: (fields?.derivedFrom ?? []).flatMap((id) => turns.get(id) ?? []).map(toRecord),
    span: fields?.span,
  });
}

/** Before the first checkpoint there is none to name. */
function whereabouts(place: EventPlace | undefined) {
  return { sessionId: place?.sessionId, branch: place?.branch, checkpointId: place?.checkpointId || undefined };
}

function toEntry(event: MemoryEvent, isVisible: boolean): MemoryHistoryEntry {
  const { seq, memoryId, operation, previous, fields, atMs, actor, reason, place } = event;
  const action: MemoryHistoryEntry['action'] = operation === 'RETRACT' ? 'DELETE' : operation;
  return withoutUndefined({
    id: seq,
    memoryId,
    previousValue: previous,
    newValue: fields?.content,
    action,
    createdAt: new Date(atMs),
    isDeleted: operation === 'RETRACT' || operation === 'PURGE',
    actor,
    reason,
    ...whereabouts(place),
    isVisible,
  });
}
