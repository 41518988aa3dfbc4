import type pg from 'pg';
import type { CheckpointRow, CheckpointWatcher, StorageWatch } from '../contract.ts';
import type { Row } from '../database/postgres-database.ts';
import { pauseAfter } from '../database/retry.ts';
import { type CheckpointColumns, decodeCheckpoint } from '../database/sql-reader.ts';
import { POSTGRES_CODEC, POSTGRES_DIALECT, type PostgresForm } from './postgres-reader.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

/** Looks even when nothing was heard: a commit may have looked for listeners just before this one was there. */
const LOOK_EVERY_MS = 2_000;
const PAGE = 500;

type Columns = CheckpointColumns<PostgresForm>;
type Found = Row & Partial<Columns> & { floor: string; stored: string | null };

/**
 * Watches what any process stores. A notification only says "look"; what is new is found by the transactions that stored it: all that
 * were still open in the snapshot of the last look, or began since. So nothing is missed, whatever was lost on the way.
 */
export class PostgresWatch implements StorageWatch {
  readonly #connection: PostgresConnection;
  readonly #watcher: CheckpointWatcher;
  /** What was told already and may be found again, with the transaction that stored it. */
  readonly #told = new Map<string, bigint>();
  #floor = '0';
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #mustLookAgain = false;
  #isClosed = false;

  constructor(connection: PostgresConnection, watcher: CheckpointWatcher) {
    this.#connection = connection;
    this.#watcher = watcher;
  }

  /** From here on everything is told. */
  async start(): Promise<void> {
    const [row] = await this.#connection.read<{ floor: string }>(
      'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS floor, $1::text AS tenant',
      [this.#connection.tenant],
    );
    this.#floor = row?.floor ?? '0';
    for (const { id, stored } of await this.#read({ stored: this.#floor, id: '' }, 'all')) this.#told.set(id, stored);
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
    this.#timer.unref();
    void this.#listen();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#client?.connection.stream.destroy(); // a server that cannot be reached would not answer a goodbye
    await this.#looking;
  }

  /** Holds one connection that listens; makes a new one when it ends. */
  async #listen(): Promise<void> {
    for (let failures = 0; !this.#isClosed; ) {
      const client = this.#connection.createClient();
      const ended = new Promise<void>((resolve) => client.once('end', resolve).on('error', () => resolve()));
      try {
        await client.connect();
        this.#client = client;
        client.on('notification', () => this.#look());
        const { rows } = await client.query<{ channel: string }>(
          this.#connection.sql('SELECT {s}.channel($1) AS channel'),
          [this.#connection.tenant],
        );
        await client.query(`LISTEN ${rows[0]?.channel}`);
        await client.query(this.#connection.sql('SELECT pg_advisory_lock_shared({s}.listen_key($1))'), [
          this.#connection.tenant,
        ]);
        failures = 0;
        this.#look(); // what was stored while nobody listened
        await ended;
      } catch (error) {
        if (!this.#isClosed) this.#report(error);
      }
      client.connection.stream.destroy();
      if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, pauseAfter(++failures)).unref());
    }
  }

  #look(): void {
    if (this.#isClosed) return;
    this.#mustLookAgain = true;
    this.#looking ??= this.#lookOn().finally(() => {
      this.#looking = undefined;
    });
  }

  async #lookOn(): Promise<void> {
    while (this.#mustLookAgain && !this.#isClosed) {
      this.#mustLookAgain = false;
      try {
        await this.#tellNew();
      } catch (error) {
        if (!this.#isClosed) this.#report(error);
      }
    }
  }

  async #tellNew(): Promise<void> {
    const rows = await this.#read({ stored: this.#floor, id: '' }, 'new');
    for (const { id, stored } of rows) this.#told.set(id, stored);
    const floor = BigInt(this.#floor);
    for (const [id, stored] of this.#told) if (stored < floor) this.#told.delete(id);
    if (rows.length > 0) this.#watcher.onCheckpoints(rows.map(({ row }) => row));
  }

  /** Everything stored since the floor, in pages; the floor then rises to that of the first page's snapshot. */
  async #read(
    from: { stored: string; id: string },
    which: 'all' | 'new',
  ): Promise<{ id: string; stored: bigint; row: CheckpointRow }[]> {
    const sql = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS floor, c.stored::text AS stored, ${POSTGRES_DIALECT.checkpoint}
      FROM (SELECT 1) AS always LEFT JOIN LATERAL (
        SELECT * FROM {s}.checkpoint WHERE tenant = $1 AND (stored, id) > ($2::bigint, $3) AND NOT deleted ORDER BY stored, id LIMIT ${PAGE}
      ) AS c ON true ORDER BY c.stored, c.id`;
    const found: { id: string; stored: bigint; row: CheckpointRow }[] = [];
    let floor: string | undefined;
    for (let { stored, id } = from; ; ) {
      const rows = await this.#connection.read<Found>(sql, [this.#connection.tenant, stored, id]);
      floor ??= rows[0]?.floor;
      const page = rows.filter((row) => row.stored !== null);
      for (const row of page) {
        if (which === 'new' && this.#told.has(row.id as string)) continue;
        found.push({
          id: row.id as string,
          stored: BigInt(row.stored as string),
          row: decodeCheckpoint(row as Columns, POSTGRES_CODEC),
        });
      }
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) break;
      stored = last.stored as string;
      id = last.id as string;
    }
    this.#floor = floor ?? this.#floor;
    return found;
  }

  #report(error: unknown): void {
    this.#watcher.onError(error);
  }
}
