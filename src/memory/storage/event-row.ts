import { CorruptError } from '../../core/errors.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { MemoryScope } from './memory-record.ts';
import type { MemoryEvent, MemoryOperation, NewMemoryEvent } from './memory-storage.ts';

/** The columns in the order in which they are bound. */
export const EVENT_COLUMNS = [
  ...(['memory_id', 'operation', 'user_id', 'agent_id', 'run_id', 'session_id', 'hash', 'subject'] as const),
  ...(['slot', 'kind', 'key', 'at_ms', 'content', 'previous', 'body'] as const),
] as const;

/** An event as SQL databases hold it: what is searched by has columns, the rest is JSON, which some databases have parsed. */
export type EventRow = Readonly<
  Record<'memory_id' | 'operation', string> &
    Record<Exclude<(typeof EVENT_COLUMNS)[number], 'memory_id' | 'operation' | 'at_ms' | 'body'>, string | null> &
    Record<'seq' | 'at_ms', number> &
    Record<'body', string | Body>
>;

/** The values of an event in the order of `EVENT_COLUMNS`. */
export function toValues(event: NewMemoryEvent): (string | number | null)[] {
  const { memoryId, operation, scope, place, atMs, fields = {}, key, previous, actor, reason, extracted } = event;
  const { content, hash, subject, slot, kind, ...rest } = fields;
  const body = JSON.stringify({ place, fields: rest, actor, reason, extracted });
  const owners = [scope.userId, scope.agentId, scope.runId, place?.sessionId];
  const values = [memoryId, operation, ...owners, hash, subject, slot, kind, key, atMs, content, previous, body];
  return values.map((value) => value ?? null);
}

/** Reads a row back; throws a CorruptError for one that is damaged. Fills what was parsed instead of copying it, because logs are read in bulk. */
export function fromRow(row: EventRow): MemoryEvent {
  const { place, fields, actor, reason, extracted } =
    typeof row.body === 'string' ? parseBody(row.body, row.seq) : row.body;
  for (const name of FIELD_COLUMNS) if (row[name] !== null) fields[name] = row[name];
  const { seq, memory_id: memoryId, at_ms: atMs } = row;
  const operation = row.operation as MemoryOperation;
  const [previous, key] = [row.previous ?? undefined, row.key ?? undefined];
  return {
    seq,
    memoryId,
    operation,
    scope: toScope(row),
    place,
    atMs,
    fields,
    previous,
    key,
    actor,
    reason,
    extracted,
  };
}

const FIELD_COLUMNS = ['content', 'hash', 'subject', 'slot', 'kind'] as const;

let lastScope: MemoryScope = {};

/** Events that follow each other are mostly of one scope, so they share it. */
function toScope({ user_id, agent_id, run_id }: EventRow): MemoryScope {
  const { userId = null, agentId = null, runId = null } = lastScope;
  if (userId !== user_id || agentId !== agent_id || runId !== run_id)
    lastScope = {
      ...(user_id !== null && { userId: user_id }),
      ...(agent_id !== null && { agentId: agent_id }),
      ...(run_id !== null && { runId: run_id }),
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

/** A scope as words of an index: whatever its names are made of. */
export function scopeTokens(scope: MemoryScope): string[] {
  return scopeColumns(scope).map(({ column, value }) => column.charAt(0) + digestText(value).slice(0, 16));
}

const MAX_TOKEN_CHARS = 64;

/** A term as a word that every tokenizer leaves whole. */
export function toToken(term: string): string {
  const token = /^[a-z0-9]+$/.test(term) ? term : `x${Buffer.from(term).toString('hex')}`;
  return token.slice(0, MAX_TOKEN_CHARS);
}
