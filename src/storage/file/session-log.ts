import type { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { Deletion, EffectRow, Ref, RefChange } from '../contract.ts';
import type { IndexedRow } from '../query.ts';
import { createRef } from '../ref.ts';
import type { LogEntry, LoggedCheckpoint, LoggedEffect, SessionOpening } from './log-entry.ts';

/** A checkpoint of a folded log and the number of the entry that holds its root. */
export type LogRow = IndexedRow & { readonly number: number };

/** An entry that cannot be read, and what is wrong with it. */
type LogDamage = { readonly number: number; readonly error: CorruptError };

/** One session as its log tells it: the fold of all entries read so far. Does no I/O. */
export class SessionLog {
  readonly sessionId: SessionId;
  readonly incarnation: string;
  readonly folder: string;
  readonly rows = new Map<CheckpointId, LogRow>();
  readonly refs = new Map<string, Ref>();
  readonly effects = new Map<string, EffectRow>();
  readonly idempotencyKeys = new Map<string, CheckpointId>();
  /** Entries that may still hold the content of a deleted checkpoint, of what was filed under it, or a result that was dropped. */
  readonly toErase = new Set<number>();
  /** The last entry known to survive a power loss; entries of other processes may not have been synced yet. */
  syncedThrough = 0;
  /** The last entry that was read or written, which nobody rewrites, and its size. */
  last = { number: 0, bytes: 0 };
  /** The entries that effects are in. */
  readonly #effectNumbers = new Map<string, number>();
  readonly #erased = new Map<CheckpointId, { readonly digest: Digest; readonly number: number }>();
  #damage: LogDamage | undefined;
  #next = 1;
  #sorted: LogRow[] | undefined;

  constructor(opening: SessionOpening, folder: string) {
    this.sessionId = opening.sessionId;
    this.incarnation = opening.incarnation;
    this.folder = folder;
  }

  /** The number that the next entry will have. */
  get next(): number {
    return this.#next;
  }

  /** The first damaged entry. Rows of other entries are sound, but what refs, keys and effects say depends on every entry. */
  get damage(): LogDamage | undefined {
    return this.#damage;
  }

  /** Throws the first damage found. */
  checkWhole(): void {
    if (this.#damage !== undefined) throw this.#damage.error;
  }

  /** Rows in the order of their ids. */
  sortedRows(): readonly LogRow[] {
    this.#sorted ??= [...this.rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.#sorted;
  }

  /** Folds the next entry in; others are ignored, because two readers may have read the same one. */
  apply(number: number, entry: LogEntry | CorruptError): void {
    if (number !== this.#next) return;
    this.#next++;
    this.#sorted = undefined;
    if (entry instanceof Error) this.#damage ??= { number, error: entry };
    else this.#fold(entry, number);
  }

  #fold({ checkpoint, erased, deletions = [], effects = [], refs = [] }: LogEntry, number: number): void {
    if (checkpoint !== undefined) this.#addCheckpoint(checkpoint, number);
    if (erased !== undefined) this.#erased.set(erased.id, { digest: erased.digest, number });
    for (const deletion of deletions) this.#delete(deletion);
    for (const effect of effects) this.#setEffect(effect, number);
    for (const change of refs) this.#changeRef(change);
  }

  #setEffect({ branch, ordinal, digest, body, result }: LoggedEffect, number: number): void {
    const key = effectKey({ branch, ordinal });
    const before = this.#effectNumbers.get(key);
    const isDropped = result === undefined && this.effects.get(key)?.result !== undefined;
    if (isDropped && before !== undefined) this.toErase.add(before);
    this.effects.set(key, { sessionId: this.sessionId, branch, ordinal, digest, body, ...(result && { result }) });
    this.#effectNumbers.set(key, number);
  }

  /** Whether an effect is what an entry says of it: nothing later replaced it, and it was not deleted. */
  hasEffect(effect: Pick<EffectRow, 'branch' | 'ordinal'>, number: number): boolean {
    return this.#effectNumbers.get(effectKey(effect)) === number;
  }

  #addCheckpoint({ header, body, digest }: LoggedCheckpoint, number: number): void {
    const { id, idempotencyKey } = header;
    this.rows.set(id, { id, sessionId: this.sessionId, digest, body, isDeleted: false, header, number });
    if (idempotencyKey !== undefined) this.idempotencyKeys.set(idempotencyKey, id);
  }

  #delete({ id, body }: Deletion): void {
    const row = this.rows.get(id);
    const origin = row ?? this.#erased.get(id);
    // The entry that brought it is damaged: the log as a whole already says so.
    if (origin === undefined) return;
    if (row !== undefined) this.toErase.add(row.number);
    if (row?.header.idempotencyKey !== undefined) this.idempotencyKeys.delete(row.header.idempotencyKey);
    const header = JSON.parse(body) as CheckpointHeader;
    const { digest, number } = origin;
    this.rows.set(id, { id, sessionId: this.sessionId, digest, body, isDeleted: true, header, number });
    this.#deleteLog(id);
  }

  /** What was filed under a checkpoint goes with it; the entry of the deletion removes the log's ref. */
  #deleteLog(id: CheckpointId): void {
    const count = Number(this.refs.get(refKey({ kind: 'log', name: id }))?.target ?? 0);
    for (let ordinal = 0; ordinal < count; ordinal++) {
      const key = effectKey({ branch: id, ordinal });
      const number = this.#effectNumbers.get(key);
      if (number !== undefined) this.toErase.add(number);
      this.effects.delete(key);
      this.#effectNumbers.delete(key);
    }
  }

  #changeRef({ kind, name, target }: Omit<RefChange, 'expect'>): void {
    if (target === null) this.refs.delete(refKey({ kind, name }));
    else this.refs.set(refKey({ kind, name }), createRef({ sessionId: this.sessionId, kind, name, target }));
  }
}

/** The key of an effect in `SessionLog.effects`. */
export function effectKey({ branch, ordinal }: Pick<EffectRow, 'branch' | 'ordinal'>): string {
  return `${ordinal} ${branch}`;
}

/** The key of a ref in `SessionLog.refs`. */
export function refKey({ kind, name }: Pick<RefChange, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}
