import type { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { Deletion, EffectRow, NewCheckpoint } from '../contract.ts';
import { effectKey, HeldSession } from '../held-session.ts';
import type { IndexedRow } from '../query.ts';
import type { LogEntry, SessionOpening } from './log-entry.ts';

/** A checkpoint of a folded log and the number of the entry that holds its root. */
export type LogRow = IndexedRow & { readonly number: number };

/** One session as its log tells it: the fold of all entries read so far. Does no I/O. */
export class SessionLog extends HeldSession {
  readonly incarnation: string;
  readonly folder: string;
  readonly rows = new Map<CheckpointId, LogRow>();
  /** Entries that may still hold the content of a deleted checkpoint, of what was filed under it, or a result that was dropped. */
  readonly toErase = new Set<number>();
  /** What is wrong with entries. Rows of other entries are sound, but what refs, keys and effects say depends on every entry. */
  readonly damages: CorruptError[] = [];
  /** The number that the next entry will have. */
  next = 1;
  /** The last entry known to survive a power loss; entries of other processes may not have been synced yet. */
  syncedThrough = 0;
  /** The last entry that was read or written, which nobody rewrites, and its size. */
  last = { number: 0, bytes: 0 };
  /** The entries that effects are in. */
  readonly #effectNumbers = new Map<string, number>();
  readonly #erased = new Map<CheckpointId, { readonly digest: Digest; readonly number: number }>();
  #sorted: LogRow[] | undefined;

  constructor({ sessionId, incarnation }: SessionOpening, folder: string) {
    super(sessionId);
    this.incarnation = incarnation;
    this.folder = folder;
  }

  /** Throws the first damage found. */
  checkWhole(): void {
    if (this.damages[0] !== undefined) throw this.damages[0];
  }

  /** Rows in the order of their ids. */
  sortedRows(): readonly LogRow[] {
    this.#sorted ??= [...this.rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.#sorted;
  }

  /** Folds the next entry in; others are ignored, because two readers may have read the same one. */
  apply(number: number, entry: LogEntry | CorruptError): void {
    if (number !== this.next) return;
    this.next++;
    this.#sorted = undefined;
    if (entry instanceof Error) this.damages.push(entry);
    else this.#fold(entry);
  }

  #fold({ checkpoint, erased, deletions = [], effects = [], refs = [], number }: LogEntry): void {
    if (checkpoint !== undefined) this.#addCheckpoint(checkpoint, number);
    if (erased !== undefined) this.#erased.set(erased.id, { digest: erased.digest, number });
    for (const deletion of deletions) this.#delete(deletion);
    for (const effect of effects) this.#foldEffect(effect, number);
    for (const change of refs) this.changeRef(change);
  }

  #foldEffect(effect: Omit<EffectRow, 'sessionId'>, number: number): void {
    const isDropped = effect.result === undefined && this.findEffect(effect)?.result !== undefined;
    if (isDropped) this.#eraseEffect(effect);
    this.setEffect(effect);
    this.#effectNumbers.set(effectKey(effect), number);
  }

  /** Whether an effect is what an entry says of it: nothing later replaced it, and it was not deleted. */
  hasEffect(effect: EffectPlace, number: number): boolean {
    return this.#effectNumbers.get(effectKey(effect)) === number;
  }

  #addCheckpoint({ header, body, digest }: NewCheckpoint, number: number): void {
    const { id, idempotencyKey } = header;
    this.rows.set(id, { id, sessionId: this.sessionId, digest, body, isDeleted: false, header, number });
    this.useKey(idempotencyKey, id);
  }

  #delete({ id, body }: Deletion): void {
    const row = this.rows.get(id);
    const origin = row ?? this.#erased.get(id);
    // The entry that brought it is damaged: the log as a whole already says so.
    if (origin === undefined) return;
    if (row !== undefined) this.toErase.add(row.number);
    this.freeKey(row?.header.idempotencyKey);
    const header = JSON.parse(body) as CheckpointHeader;
    const { digest, number } = origin;
    this.rows.set(id, { id, sessionId: this.sessionId, digest, body, isDeleted: true, header, number });
    // The entry of the deletion removes the ref of what was filed under it.
    for (const place of this.placesFiledUnder(id)) {
      this.#eraseEffect(place);
      this.removeEffect(place);
    }
  }

  #eraseEffect(place: EffectPlace): void {
    const number = this.#effectNumbers.get(effectKey(place));
    if (number !== undefined) this.toErase.add(number);
    this.#effectNumbers.delete(effectKey(place));
  }
}

type EffectPlace = Pick<EffectRow, 'branch' | 'ordinal'>;
