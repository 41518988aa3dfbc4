import type { Conditions } from '../../storage/database/conditions.ts';
import { type Connection, DatabaseStorage } from '../../storage/database/database-storage.ts';
import { scopeColumns } from './event-row.ts';
import type { MemoryScope } from './memory-record.ts';
import type { EventQuery, MemoryEvent, RelatedQuery, SeriesQuery } from './memory-storage.ts';

/** Of each part of a related query at most this many events are wanted, the newest. */
const MAX_RELATED = 100;
/** Of a series fewer will do: the last turn that is visible is wanted, and it is nearly always the last one. */
const MAX_SERIES = 4;
/** Events that are read at once: few enough that the longest of them fit into one text. */
const PAGE = 1000;

type Where = Conditions<unknown>;

/** Which events are read for what, the same in every database. */
export abstract class SqlMemoryReader<Opened extends Connection> extends DatabaseStorage<Opened> {
  /** What every read is limited to, and a scope where another index finds the rows. @internal */
  protected abstract where(scope: MemoryScope): Where;
  /** Adds that a column has one of these values. @internal */
  protected abstract among(where: Where, column: string, values: readonly string[]): Where;
  /** @internal */
  protected abstract select(where: Where, order: string): Promise<MemoryEvent[]>;

  async readEvents({ afterSeq = 0, memoryIds, ...query }: EventQuery): Promise<MemoryEvent[]> {
    const events: MemoryEvent[] = [];
    for (let after = afterSeq; ; after = events.at(-1)?.seq ?? after) {
      const where = this.where({}).add('seq > ?', after);
      for (const { column, value } of columnsOf(query)) where.add(`${column} = ?`, value);
      const wanted = memoryIds === undefined ? where : this.among(where, 'memory_id', memoryIds);
      const page = await this.select(wanted, `ORDER BY seq LIMIT ${PAGE}`);
      for (const event of page) events.push(event);
      if (page.length < PAGE) return events;
    }
  }

  async readRelated({ scope, keys, hashes, slots, kinds }: RelatedQuery): Promise<MemoryEvent[]> {
    const about = (subject: string) =>
      this.where(scope).add('subject = ?', subject).addPlain("kind IS NOT NULL AND kind <> 'episode'");
    const wanted = [
      ...(keys.length > 0 ? [this.among(this.where({}), 'key', keys)] : []),
      ...(hashes.length > 0 ? [this.among(this.where(scope), 'hash', hashes)] : []),
      ...slots.map(({ subject, slot }) => about(subject).add('slot = ?', slot)),
      ...kinds.map(({ subject, kind }) => about(subject).add('kind = ?', kind)),
    ];
    const order = `ORDER BY seq DESC LIMIT ${MAX_RELATED + keys.length + hashes.length}`;
    const found = new Map<number, MemoryEvent>();
    for (const where of wanted) for (const event of await this.select(where, order)) found.set(event.seq, event);
    return [...found.values()].sort((a, b) => a.seq - b.seq);
  }

  async readSeries({ scope, sessionId }: SeriesQuery): Promise<MemoryEvent[]> {
    const { runId, ...owner } = scope;
    const where =
      sessionId === undefined
        ? this.where(owner).add('run_id = ?', runId).addPlain('session_id IS NULL')
        : this.where(scope).add('session_id = ?', sessionId);
    return this.select(where.addPlain("kind = 'episode'"), `ORDER BY seq DESC LIMIT ${MAX_SERIES}`);
  }
}

function columnsOf({ scope = {}, sessionId }: EventQuery): ReturnType<typeof scopeColumns> {
  const columns = scopeColumns(scope);
  return sessionId === undefined ? columns : [...columns, { column: 'session_id', value: sessionId }];
}
