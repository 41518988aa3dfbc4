import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type LineageEntry, readPages, toEntry } from '../../manager/engine/records.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow } from '../../storage/contract.ts';

/** What a flag of a checkpoint stands for; a checkpoint has the sum of its flags. */
export const FLAGS = { deleted: 1, byPerson: 2, beginsBranch: 4, failed: 8, drifting: 16, damaged: 32 } as const;

const NOTHING = -1;
const ELSEWHERE = -2;
const FAILED = new Set(['failed', 'error', 'stopped']);

/** Columns of names: each is a number, in the order they come. */
const NAMED = ['branches', 'types', 'triggers', 'statuses', 'agents'] as const;
type Named = (typeof NAMED)[number];

const forNamed = <Value>(make: (column: Named) => Value) =>
  Object.fromEntries(NAMED.map((column) => [column, make(column)])) as Record<Named, Value>;

/** Checkpoints as columns: small, and quick to draw from. Takes them oldest first. */
class Columns {
  readonly #numbers = forNamed(() => new Map<string, number>());
  readonly #places = new Map<string, number>();
  readonly #columns = {
    ids: [] as string[],
    parents: [] as number[],
    elsewhere: {} as Record<string, string>,
    sinceMs: [] as number[],
    sequences: [] as number[],
    bytes: [] as number[],
    ...forNamed(() => [] as number[]),
    messages: [] as number[],
    flags: [] as number[],
    words: {} as Record<string, string>,
  };
  #startMs: number | undefined;

  add(row: CheckpointRow): void {
    const { checkpoint, tombstone, parentId } = readEntry(row);
    const columns = this.#columns;
    const at = columns.ids.push(row.id) - 1;
    this.#places.set(row.id, at);
    this.#addParent(at, parentId);
    this.#addPlace(checkpoint?.header ?? tombstone ?? {});
    this.#addWhat(at, checkpoint?.header ?? {});
    columns.flags.push(this.#flagsOf(at, checkpoint, tombstone !== undefined));
  }

  /** What is also left of a deleted one. */
  #addPlace({ branch, sequence = 0, timestampMs = this.#startMs ?? 0 }: Partial<Tombstone>): void {
    this.#startMs ??= timestampMs;
    this.#columns.sinceMs.push(timestampMs - this.#startMs);
    this.#columns.sequences.push(sequence);
    this.#addName('branches', branch);
  }

  #addWhat(at: number, header: Partial<CheckpointHeader>): void {
    const { type, trigger, status, author, agentId, metadata = {}, stateBytes = 0 } = header;
    const { speaker, messages } = metadata;
    const words = header.name ?? header.note ?? header.reason;
    if (words !== undefined) this.#columns.words[at] = words;
    this.#columns.bytes.push(stateBytes);
    this.#addName('types', type);
    this.#addName('triggers', trigger);
    this.#addName('statuses', status);
    this.#addName('agents', author ?? (typeof speaker === 'string' ? speaker : agentId));
    this.#columns.messages.push(typeof messages === 'number' ? messages : NOTHING);
  }

  #addName(column: Named, name: string | undefined): void {
    const numbers = this.#numbers[column];
    if (name !== undefined && !numbers.has(name)) numbers.set(name, numbers.size);
    this.#columns[column].push(name === undefined ? NOTHING : (numbers.get(name) ?? NOTHING));
  }

  #addParent(at: number, parentId: string | undefined): void {
    const place = parentId === undefined ? NOTHING : (this.#places.get(parentId) ?? ELSEWHERE);
    this.#columns.parents.push(place);
    if (place === ELSEWHERE && parentId !== undefined) this.#columns.elsewhere[at] = parentId;
  }

  #flagsOf(at: number, checkpoint: Checkpoint | undefined, isDeleted: boolean): number {
    if (isDeleted) return FLAGS.deleted;
    if (checkpoint === undefined) return FLAGS.damaged;
    const { branches, parents } = this.#columns;
    const parent = parents[at] ?? NOTHING;
    const { author, trigger, status = '', metadata = {} } = checkpoint.header;
    const signs: readonly [number, boolean][] = [
      [FLAGS.byPerson, author !== undefined || trigger === 'edited'],
      [FLAGS.beginsBranch, parent >= 0 && branches[parent] !== branches[at]],
      [FLAGS.failed, FAILED.has(status)],
      [FLAGS.drifting, metadata.health === 'drifting'],
    ];
    return signs.reduce((sum, [flag, isSet]) => sum + (isSet ? flag : 0), 0);
  }

  toReply() {
    return {
      names: forNamed((column) => [...this.#numbers[column].keys()]),
      startMs: this.#startMs ?? 0,
      ...this.#columns,
    };
  }
}

/** A damaged row has its place, too: nothing else is known of it. */
function readEntry(row: CheckpointRow): Partial<LineageEntry> {
  try {
    return toEntry(row);
  } catch (error) {
    if (hasErrorCode(error, 'CORRUPT')) return {};
    throw error;
  }
}

type Page = {
  readonly limit: number;
  readonly after: string | undefined;
  readonly isLast: boolean;
  readonly signal: AbortSignal;
};

/** The checkpoints and tombstones of a session, oldest first, as columns: the first ones, or the last. */
export async function readTimeline({ engine }: CheckpointManager, sessionId: SessionId, page: Page) {
  const { limit, after, isLast, signal } = page;
  const query = { sessionId, order: isLast ? 'newest' : 'oldest', include: 'all' } as const;
  const found: CheckpointRow[] = [];
  for await (const rows of readPages(engine.storage, { ...query, ...(after !== undefined && { after }) })) {
    signal.throwIfAborted();
    for (const row of rows.slice(0, limit - found.length)) found.push(row);
    if (found.length === limit) break;
  }
  const columns = new Columns();
  const next = found.length === limit ? found.at(-1)?.id : undefined;
  await new Breather().each(isLast ? found.reverse() : found, (row) => columns.add(row));
  return { ...columns.toReply(), ...(next !== undefined && { next }) };
}

/** The same columns for some checkpoints alone; those that are gone are left out. */
export async function readTimelineOf({ engine }: CheckpointManager, sessionId: SessionId, ids: readonly string[]) {
  const columns = new Columns();
  for (const id of ids.toSorted()) {
    const row = await engine.storage.readCheckpoint(id as CheckpointId);
    if (row?.sessionId === sessionId) columns.add(row);
  }
  return columns.toReply();
}
