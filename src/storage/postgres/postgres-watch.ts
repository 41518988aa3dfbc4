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

/** What was stored since a transaction (or since now), and the first transaction that is under way; that alone if there is nothing. */
const STORED = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS floor, c.stored::text AS stored, ${POSTGRES_DIALECT.checkpoint}
  FROM (SELECT 1) AS always LEFT JOIN LATERAL (
    SELECT * FROM {s}.checkpoint WHERE tenant = $1 AND NOT deleted
      AND (stored, id) > (coalesce($2::bigint, pg_snapshot_xmin(pg_current_snapshot())::text::bigint), $3) ORDER BY stored, id LIMIT ${PAGE}
  ) AS c ON true ORDER BY c.stored, c.id`;

type Stored = Row & CheckpointColumns<PostgresForm> & { readonly floor: string; readonly stored: string };
type Found = Stored | { readonly floor: string; readonly stored: null };

/**
 * Watches what any process stores. A notification only says "look"; what is new is found by the transactions that stored it: all that
 * were still open in the snapshot of the last look, or began since. So nothing is missed, whatever was lost on the way.
 */
export class PostgresWatch implements StorageWatch {
  readonly #connection: PostgresConnection;
  readonly #watcher: CheckpointWatcher;
  /** What was told already and may be found again, with the transaction that stored it. */
  readonly #told = new Map<string, bigint>();
  /** The first transaction that was under way at the last look. */
  #floor: string | null = null;
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
    await this.#readNew(); // what is there already
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
    this.#timer.unref();
    void this.#listen();
  }

  async close(): Promise<void> {
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
        await this.#hear(client);
        failures = 0;
        this.#look(); // what was stored while nobody listened
        await ended;
      } catch (error) {
        this.#report(error);
      }
      client.connection.stream.destroy();
      if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, pauseAfter(++failures)).unref());
    }
  }

  /** The lock tells those who commit that somebody listens. */
  async #hear(client: pg.Client): Promise<void> {
    const ask = <Result extends Row>(sql: string) =>
      client.query<Result>(this.#connection.sql(sql), [this.#connection.tenant]);
    client.on('notification', () => this.#look());
    const { rows } = await ask<{ channel: string }>('SELECT {s}.channel($1) AS channel');
    await client.query(`LISTEN ${rows[0]?.channel}`);
    await ask('SELECT pg_advisory_lock_shared({s}.listen_key($1))');
  }

  #look(): void {
    if (this.#isClosed) return;
    this.#mustLookAgain = true;
    this.#looking ??= this.#tellNew().finally(() => {
      this.#looking = undefined;
    });
  }

  async #tellNew(): Promise<void> {
    while (this.#mustLookAgain && !this.#isClosed) {
      this.#mustLookAgain = false;
      try {
        const rows = await this.#readNew();
        if (rows.length > 0) this.#watcher.onCheckpoints(rows);
      } catch (error) {
        this.#report(error);
      }
    }
  }

  /** What was stored since the floor and was not read before. The floor then rises. */
  async #readNew(): Promise<CheckpointRow[]> {
    const { rows, floor } = await this.#readStored();
    const fresh = rows.filter(({ id }) => !this.#told.has(id));
    for (const { id, stored } of fresh) this.#told.set(id, BigInt(stored));
    for (const [id, stored] of this.#told) if (stored < BigInt(floor)) this.#told.delete(id);
    this.#floor = floor;
    return fresh.map((row) => decodeCheckpoint(row, POSTGRES_CODEC));
  }

  /** In pages; the floor is that of the first page's snapshot. */
  async #readStored(): Promise<{ readonly rows: readonly Stored[]; readonly floor: string }> {
    const rows: Stored[] = [];
    let floor: string | undefined;
    for (let last = { stored: this.#floor, id: '' }; ; last = rows.at(-1) ?? last) {
      const page = await this.#connection.read<Found>(STORED, [this.#connection.tenant, last.stored, last.id]);
      floor ??= page[0]?.floor ?? '0';
      rows.push(...page.filter((row): row is Stored => row.stored !== null));
      if (page.length < PAGE) return { rows, floor };
    }
  }

  #report(error: unknown): void {
    if (!this.#isClosed) this.#watcher.onError(error);
  }
}
