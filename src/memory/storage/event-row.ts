import { CorruptError } from '../../core/errors.ts';
import type { MemoryScope } from './memory-record.ts';
import type { MemoryEvent, MemoryOperation, NewMemoryEvent } from './memory-storage.ts';

/** The columns in the order in which they are bound. */
export const EVENT_COLUMNS = [
  ...(['memory_id', 'operation', 'user_id', 'agent_id', 'run_id', 'session_id', 'hash', 'subject'] as const),
  ...(['slot', 'kind', 'key', 'at_ms', 'content', 'previous', 'body'] as const),
] as const;

/** What has columns is left out of the rest, because JSON has no undefined; to take it out costs ten times as much. */
const NO_COLUMNS = { content: undefined, hash: undefined, subject: undefined, slot: undefined, kind: undefined };

type Text = string | null;

/** An event as SQL databases hold it, with its number first: what is searched by has columns, the rest is JSON. */
export type EventRow = readonly [
  ...(readonly [seq: number, memoryId: string, operation: string, userId: Text, agentId: Text, runId: Text]),
  ...(readonly [sessionId: Text, hash: Text, subject: Text, slot: Text, kind: Text, key: Text, atMs: number]),
  ...(readonly [content: Text, previous: Text, body: string]),
];

/** The values of an event in the order of `EVENT_COLUMNS`. */
export function toValues(event: NewMemoryEvent): (string | number | null)[] {
  const { memoryId, operation, scope, place, atMs, fields = {}, key, previous, actor, reason, extracted } = event;
  const { content, hash, subject, slot, kind } = fields;
  const body = JSON.stringify({ place, fields: { ...fields, ...NO_COLUMNS }, actor, reason, extracted });
  const owners = [scope.userId, scope.agentId, scope.runId, place?.sessionId];
  const values = [memoryId, operation, ...owners, hash, subject, slot, kind, key, atMs, content, previous, body];
  return values.map((value) => value ?? null);
}

/** Reads a row back; throws a CorruptError for one that is damaged. Fills what was parsed instead of copying it, because logs are read in bulk. */
export function fromRow(row: EventRow): MemoryEvent {
  const [seq, memoryId, operation, userId, agentId, runId, , hash, subject, slot, kind, key, atMs, ...rest] = row;
  const [content, previous, body] = rest;
  const { place, fields, actor, reason, extracted } = parseBody(body, seq);
  if (content !== null) fields.content = content;
  if (hash !== null) fields.hash = hash;
  if (subject !== null) fields.subject = subject;
  if (slot !== null) fields.slot = slot;
  if (kind !== null) fields.kind = kind;
  return {
    seq,
    memoryId,
    operation: operation as MemoryOperation,
    scope: toScope(userId, agentId, runId),
    place,
    atMs,
    fields,
    previous: previous ?? undefined,
    key: key ?? undefined,
    actor,
    reason,
    extracted,
  };
}

let lastScope: MemoryScope = {};

/** Events that follow each other are mostly of one scope, so they share it. */
function toScope(user: Text, agent: Text, run: Text): MemoryScope {
  const { userId = null, agentId = null, runId = null } = lastScope;
  if (userId !== user || agentId !== agent || runId !== run)
    lastScope = {
      ...(user !== null && { userId: user }),
      ...(agent !== null && { agentId: agent }),
      ...(run !== null && { runId: run }),
    };
  return lastScope;
}

type Body = Pick<NewMemoryEvent, 'place' | 'actor' | 'reason' | 'extracted'> & { fields: Record<string, unknown> };

function parseBody(body: string, seq: number): Body {
  try {
    return JSON.parse(body) as Body;
  } catch (cause) {
    throw new CorruptError(
      `Memory event ${seq} is damaged: its record cannot be read. Restore the file from a backup.`,
      { cause, details: { seq } },
    );
  }
}

const SCOPE_COLUMNS = [
  ['userId', 'user_id'],
  ['agentId', 'agent_id'],
  ['runId', 'run_id'],
] as const;

/** The columns that a scope fixes, with their values. */
export function scopeColumns(scope: MemoryScope): { readonly column: string; readonly value: string }[] {
  return SCOPE_COLUMNS.flatMap(([name, column]) => {
    const value = scope[name];
    return value === undefined ? [] : [{ column, value }];
  });
}

/** A name for a scope. */
export function scopeKey({ userId, agentId, runId }: MemoryScope): string {
  return JSON.stringify([userId, agentId, runId]);
}
