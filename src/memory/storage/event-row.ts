import { createHash } from 'node:crypto';
import { CorruptError } from '../../core/errors.ts';
import type { MemoryScope } from './memory-record.ts';
import type { MemoryEvent, MemoryOperation, NewMemoryEvent } from './memory-storage.ts';

const NAMED_COLUMNS = [
  'user_id',
  'agent_id',
  'run_id',
  'session_id',
  'hash',
  'subject',
  'slot',
  'kind',
  'key',
] as const;

/** The columns in the order in which they are bound. */
export const EVENT_COLUMNS = [
  ...(['memory_id', 'operation'] as const),
  ...NAMED_COLUMNS,
  ...(['at_ms', 'content', 'previous', 'body'] as const),
] as const;

/** An event as SQL databases hold it: what is searched by has columns, the rest is JSON. */
export type EventRow = Readonly<
  Record<'memory_id' | 'operation' | 'body', string> &
    Record<(typeof NAMED_COLUMNS)[number] | 'content' | 'previous', string | null> &
    Record<'at_ms', number>
>;

/** Brings an event into the form of a row. */
export function toRow(event: NewMemoryEvent): EventRow {
  const { memoryId, operation, scope, place, atMs, fields = {}, actor, reason, extracted } = event;
  const { content, hash, subject, slot, kind, ...rest } = fields;
  const named = { content, hash, subject, slot, kind, key: event.key, previous: event.previous };
  const owners = { user_id: scope.userId, agent_id: scope.agentId, run_id: scope.runId, session_id: place?.sessionId };
  return {
    memory_id: memoryId,
    operation,
    at_ms: atMs,
    body: JSON.stringify({ place, fields: rest, actor, reason, extracted }),
    ...withNulls(named),
    ...withNulls(owners),
  };
}

function withNulls<Value extends object>(
  value: Value,
): { [Key in keyof Value]-?: Exclude<Value[Key], undefined> | null } {
  const entries = Object.entries(value).map(([name, field]) => [name, field ?? null]);
  return Object.fromEntries(entries) as { [Key in keyof Value]-?: Exclude<Value[Key], undefined> | null };
}

/** Reads a row back; throws a CorruptError for one that is damaged. Fills what was parsed instead of copying it, because logs are read in bulk. */
export function fromRow(row: EventRow & { readonly seq: number }): MemoryEvent {
  const { place, fields, actor, reason, extracted } = parseBody(row.body, row.seq);
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

/** A scope as words of an index: whatever its names are made of. */
export function scopeTokens(scope: MemoryScope): string[] {
  return scopeColumns(scope).map(
    ({ column, value }) => column.charAt(0) + createHash('sha256').update(value).digest('hex').slice(0, 16),
  );
}

const MAX_TOKEN_CHARS = 64;

/** A term as a word that every tokenizer leaves whole. */
export function toToken(term: string): string {
  const token = /^[a-z0-9]+$/.test(term) ? term : `x${Buffer.from(term).toString('hex')}`;
  return token.slice(0, MAX_TOKEN_CHARS);
}
