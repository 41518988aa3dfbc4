import { withoutUndefined } from '../../core/defined.ts';
import { decodeField } from '../../core/record/check-header.ts';
import type { MemoryFields, MemoryRecord, MemoryScope } from '../storage/memory-record.ts';
import type { MemoryEvent } from '../storage/memory-storage.ts';
import { termsOf } from '../text/terms.ts';

/** What the visible events make of one memory. */
export type FoldedMemory = {
  readonly id: string;
  readonly scope: MemoryScope;
  readonly fields: MemoryFields;
  /** The event whose words count now. */
  readonly contentSeq: number;
  /** Since when it holds, by whoever said so last. */
  readonly saidSinceMs: number;
  readonly version: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly reinforcements: number;
  readonly isPromoted: boolean;
};

/** The memory after one more event; undefined when there is none (any more). */
export function applyEvent(before: FoldedMemory | undefined, event: MemoryEvent): FoldedMemory | undefined {
  const { operation, seq, atMs } = event;
  if (operation === 'RETRACT' || operation === 'PURGE') return undefined;
  if (operation === 'EXTRACT' || operation === 'STAND' || operation === 'END') return before;
  if (before === undefined) return begin(event);
  return { ...before, ...CHANGES[operation](before, event), version: seq, updatedAtMs: atMs };
}

/** What a sequence of events makes of one memory. */
export function foldMemory(events: Iterable<MemoryEvent>): FoldedMemory | undefined {
  let folded: FoldedMemory | undefined;
  for (const event of events) folded = applyEvent(folded, event);
  return folded;
}

/** Learning again counts like learning first when the first time is not visible from here; a mere change of it then means nothing. */
function begin(event: MemoryEvent): FoldedMemory | undefined {
  if (event.operation === 'UPDATE' || event.operation === 'SUPERSEDE') return undefined;
  return {
    id: event.memoryId,
    scope: event.scope,
    fields: event.fields as MemoryFields,
    contentSeq: event.seq,
    saidSinceMs: sinceMs(event.fields as MemoryFields),
    version: event.seq,
    createdAtMs: event.atMs,
    updatedAtMs: event.atMs,
    reinforcements: 0,
    isPromoted: event.operation === 'PROMOTE',
  };
}

/** The richer words are kept. */
function reinforce({ fields: known, ...before }: FoldedMemory, event: MemoryEvent): Partial<FoldedMemory> {
  const fields = event.fields as MemoryFields;
  const isRicher =
    fields.hash !== known.hash && new Set(termsOf(fields.content)).size > new Set(termsOf(known.content)).size;
  const merged = isRicher ? { ...known, content: fields.content, hash: fields.hash } : known;
  return {
    fields: { ...merged, confidence: Math.max(known.confidence, fields.confidence) },
    contentSeq: isRicher ? event.seq : before.contentSeq,
    saidSinceMs: Math.max(before.saidSinceMs, sinceMs(fields)),
    reinforcements: before.reinforcements + 1,
  };
}

function promote(_: FoldedMemory, { seq, fields }: MemoryEvent): Partial<FoldedMemory> {
  return { fields: fields as MemoryFields, contentSeq: seq, isPromoted: true };
}

function change(before: FoldedMemory, { seq, fields }: MemoryEvent): Partial<FoldedMemory> {
  return { fields: { ...before.fields, ...fields }, ...(fields?.content !== undefined && { contentSeq: seq }) };
}

const CHANGES = { ADD: reinforce, REINFORCE: reinforce, PROMOTE: promote, UPDATE: change, SUPERSEDE: change } as const;

/** Whether a memory holds at a moment: neither expired nor superseded. */
export function holdsAt({ fields }: FoldedMemory, atMs: number): boolean {
  return !isExpired(fields, atMs) && (fields.validToMs === undefined || fields.validToMs > atMs);
}

/** Whether its time was limited, and is over. */
export function isExpired({ expiresAtMs }: MemoryFields, atMs: number): boolean {
  return expiresAtMs !== undefined && expiresAtMs <= atMs;
}

/** Since when something holds, as far as it is known. */
export function sinceMs({ validFromMs, observedAtMs }: Pick<MemoryFields, 'validFromMs' | 'observedAtMs'>): number {
  return validFromMs ?? observedAtMs;
}

/** A folded memory as callers see it. */
export function toRecord({ id, scope, fields, ...folded }: FoldedMemory): MemoryRecord {
  const { content, kind, subject, slot, metadata, trust, confidence, isPinned, supersededBy } = fields;
  return withoutUndefined({
    id,
    memory: content,
    kind,
    subject,
    slot,
    userId: scope.userId,
    agentId: scope.agentId,
    runId: scope.runId,
    metadata: decodeField(metadata) as MemoryRecord['metadata'],
    trust,
    confidence,
    isPinned,
    isPromoted: folded.isPromoted,
    reinforcements: folded.reinforcements,
    version: folded.version,
    observedAt: new Date(fields.observedAtMs),
    validFrom: toDate(fields.validFromMs),
    validTo: toDate(fields.validToMs),
    expiresAt: toDate(fields.expiresAtMs),
    supersededBy,
    derivedFrom: [...(fields.derivedFrom ?? [])],
    messageId: fields.messageId,
    createdAt: new Date(folded.createdAtMs),
    updatedAt: new Date(folded.updatedAtMs),
  });
}

function toDate(ms: number | undefined): Date | undefined {
  return ms === undefined ? undefined : new Date(ms);
}
