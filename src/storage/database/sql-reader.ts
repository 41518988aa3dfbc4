import { setImmediate as nextTurn } from 'node:timers/promises';
import { CorruptError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { TAG_START } from '../../core/value/grammar.ts';
import type { CheckpointQuery, CheckpointRow, CheckpointRowWithRoot, EffectRow } from '../contract.ts';
import { matchesQuery, parseHeader } from '../query.ts';
import { isBindable } from '../sql-text.ts';
import type { Conditions } from './conditions.ts';
import { type Connection, DatabaseStorage } from './database-storage.ts';

/** Rows of one statement: large enough to be few, small enough to hold up nobody. */
const ROWS_PER_PAGE = 200;
/** Of these few are handed over. */
const SCANNED_PER_PAGE = 2000;
/** Greater than every character an id can go on with, so that a prefix is a range. */
const AFTER_ALL = '\u{10ffff}';

/** How a database gives back digests, texts, lists of references, and what a record is filed under. */
type Stored = { readonly digest: unknown; readonly text: unknown; readonly refs: unknown; readonly filed: object };

/** Reads what is stored back. */
export type RowCodec<Form extends Stored> = {
  digest(stored: Form['digest']): Digest;
  text(stored: Form['text']): string;
  record(row: CheckpointColumns<Form>): string;
  refs(stored: Form['refs'] | null): Digest[];
};

/** The columns of a checkpoint as every reader wants them. */
export type CheckpointColumns<Form extends Stored> = Form['filed'] & {
  readonly id: CheckpointId;
  readonly session: SessionId;
  readonly digest: Form['digest'];
  readonly body: Form['text'];
  readonly deleted: number | boolean;
};

type ContentColumns<Form extends Stored> = {
  readonly text: Form['text'] | null;
  readonly refs: Form['refs'] | null;
};

/** The columns of an effect as every reader wants them. */
export type EffectColumns<Form extends Stored> = ContentColumns<Form> & {
  readonly session: SessionId;
  readonly branch: string;
  readonly ordinal: number;
  readonly digest: Form['digest'];
  readonly body: Form['text'];
};

/** What is called otherwise in each database: lists of columns, tables `c` and `e` with what they are joined to, names of columns. */
export type Dialect = {
  readonly checkpoint: string;
  readonly root: string;
  readonly checkpoints: string;
  readonly effect: string;
  readonly effects: string;
  readonly sessions: string;
  readonly isInSession: string;
  readonly effectSession: string;
  readonly user: string;
  readonly timestamp: string;
  /** Whether a record is kept as its text. */
  readonly isPlain: string;
  /** Whether the text of a record contains another. */
  readonly contains: string;
};

type Value = string | number;

/** A statement and what is bound to it. */
export type Statement = { readonly sql: string; readonly values: readonly Value[] };

/** The reading half of a storage: rows back into what was committed, by the same rules in every database. */
export abstract class SqlReader<Opened extends Connection, Form extends Stored> extends DatabaseStorage<Opened> {
  /** @internal */
  protected abstract readonly dialect: Dialect;
  /** @internal */
  protected abstract readonly codec: RowCodec<Form>;
  /** Runs one statement, and decodes in the same read. @internal */
  protected abstract select<Row, Result>(statement: Statement, decode: (row: Row) => Result): Promise<Result[]>;
  /** What every statement is limited to. @internal */
  protected abstract where(): Conditions<Value>;

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    if (!isBindable(id)) return undefined;
    const { codec, dialect } = this;
    const where = this.where().add('c.id = ?', id);
    const sql = `SELECT ${dialect.checkpoint}, ${dialect.root} FROM ${dialect.checkpoints} ${where.sql}`;
    const decode = (row: CheckpointColumns<Form> & ContentColumns<Form>): CheckpointRowWithRoot => {
      const root = decodeContent(row, codec);
      return { ...decodeCheckpoint(row, codec), ...(root !== undefined && { root }) };
    };
    return (await this.select({ sql, values: where.values }, decode))[0];
  }

  /**
   * Returns rows in order of ids, page by page. SQL compares the columns, and passes by records that cannot hold the metadata; the others are
   * compared here, by the one rule for all storages.
   */
  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    const { limit, metadata } = query;
    const found: CheckpointRow[] = [];
    let { after, offset = 0 } = query;
    let skip = metadata === undefined ? 0 : offset;
    if (metadata !== undefined) offset = 0;
    while (found.length < limit) {
      const size = metadata === undefined ? Math.min(ROWS_PER_PAGE, limit - found.length) : SCANNED_PER_PAGE;
      const { rows, scanned } = await this.#readPage(query, { after, offset, limit: size });
      const fitting = metadata === undefined ? rows : rows.filter((row) => matchesQuery(parseHeader(row), query));
      found.push(...fitting.slice(skip, skip + limit - found.length));
      skip = Math.max(0, skip - fitting.length);
      if (scanned < size) break;
      after = rows.at(-1)?.id;
      offset = 0;
      await nextTurn();
    }
    return found;
  }

  async #readPage(query: CheckpointQuery, page: Page): Promise<{ rows: CheckpointRow[]; scanned: number }> {
    const { codec, dialect } = this;
    const where = this.where();
    const isOldestFirst = query.order === 'oldest';
    where.add(dialect.isInSession, query.sessionId);
    where.add(`${dialect.user} = ?`, query.userId);
    where.add('c.agent = ?', query.agentId);
    where.add('c.branch = ?', query.branch);
    where.add('c.type = ?', query.type);
    where.add('c.status = ?', query.status);
    where.add(`${dialect.timestamp} >= ?`, query.fromMs);
    where.add(`${dialect.timestamp} <= ?`, query.toMs);
    where.add('c.id >= ?', query.idPrefix);
    where.addCursor('c.id < ?', query.idPrefix === undefined ? undefined : query.idPrefix + AFTER_ALL);
    if (query.include !== 'all') where.addPlain('NOT c.deleted');
    where.addCursor(isOldestFirst ? 'c.id > ?' : 'c.id < ?', page.after);
    const order = `${isOldestFirst ? 'ASC' : 'DESC'}`;
    const paged = `ORDER BY c.id ${order} ${where.page(page.limit, page.offset)}`;
    const sql = `SELECT ${dialect.checkpoint} FROM ${dialect.checkpoints} ${where.sql} ${paged}`;
    const decode = (row: CheckpointColumns<Form> & { readonly scanned?: number }) => {
      scanned = row.scanned ?? scanned + 1;
      return decodeCheckpoint(row, codec);
    };
    let scanned = 0;
    const statement = { sql: this.#passBy(sql, query, where), values: where.values };
    return { rows: await this.select(statement, decode), scanned };
  }

  /** Of a page only what may hold the metadata, and its last row, after which the list goes on: handing over a row costs more than looking at it. */
  #passBy(sql: string, { metadata = {}, order }: CheckpointQuery, where: Conditions<Value>): string {
    const texts = Object.entries(metadata).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
    if (texts.length === 0) return sql;
    const { isPlain, contains } = this.dialect;
    const has = (text: string) => contains.replace('?', () => where.bind(text));
    const isPossible = `NOT ${isPlain} OR ${has(TAG_START)} OR (${texts.map(has).join(' AND ')})`;
    const [last, direction] = order === 'oldest' ? ['max', 'ASC'] : ['min', 'DESC'];
    return `WITH page AS MATERIALIZED (${sql}) SELECT *, (SELECT count(*) FROM page) AS scanned FROM page WHERE id = (SELECT ${last}(id) FROM page) OR ${isPossible} ORDER BY id ${direction}`;
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    const { codec, dialect } = this;
    const where = this.where().add(`${dialect.effectSession} = ?`, filter.sessionId);
    where.add('e.branch = ?', filter.branch).add('e.ordinal >= ?', filter.fromOrdinal);
    const sql = `SELECT ${dialect.effect} FROM ${dialect.effects} ${where.sql} ORDER BY e.branch, e.ordinal`;
    return this.select({ sql, values: where.values }, (row: EffectColumns<Form>) => decodeEffect(row, codec));
  }

  async listSessions({ after, limit }: { after?: string; limit: number }): Promise<SessionId[]> {
    const where = this.where().addCursor('name > ?', after);
    const sql = `SELECT name FROM ${this.dialect.sessions} ${where.sql} ORDER BY name ${where.page(limit)}`;
    return this.select({ sql, values: where.values }, ({ name }: { name: SessionId }) => requireText(name, 'name'));
  }
}

/** A part of a listing: what comes after an id. */
type Page = { readonly after: string | undefined; readonly offset: number; readonly limit: number };

/** A damaged file may hold anything in a column. A name that is no text leads nowhere. */
export function requireText<Text extends string>(value: Text, column: string): Text {
  if (typeof value === 'string') return value;
  throw new CorruptError(`A row is damaged: its ${column} is no text. Run verify to see what it affects.`);
}

/** A row as the contract has it. */
export function decodeCheckpoint<Form extends Stored>(
  row: CheckpointColumns<Form>,
  codec: RowCodec<Form>,
): CheckpointRow {
  const { id, session, digest, deleted } = row;
  const sessionId = requireText(session, 'session');
  return {
    id: requireText(id, 'id'),
    sessionId,
    digest: codec.digest(digest),
    body: codec.record(row),
    isDeleted: Boolean(deleted),
  };
}

/** An effect as the contract has it. */
export function decodeEffect<Form extends Stored>(row: EffectColumns<Form>, codec: RowCodec<Form>): EffectRow {
  const { ordinal, digest, body } = row;
  const sessionId = requireText(row.session, 'session');
  const branch = requireText(row.branch, 'branch');
  const result = decodeContent(row, codec);
  const rest = { body: codec.text(body), digest: codec.digest(digest), ...(result !== undefined && { result }) };
  return { sessionId, branch, ordinal, ...rest };
}

function decodeContent<Form extends Stored>({ text, refs }: ContentColumns<Form>, codec: RowCodec<Form>) {
  return text === null ? undefined : { text: codec.text(text), refs: codec.refs(refs) };
}
