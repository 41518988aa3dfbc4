import type pg from 'pg';
import { isOutcomeUnknown } from './postgres-error.ts';

/** A server process that was told to end does so when it looks up from its work; one that writes to a slow disk may take long. */
const MAX_END_MS = 1_000;

/** Only connections like this one: after a failover the number may be that of somebody else. */
const END = `SELECT pid, pg_terminate_backend(pid, $2) AS "isEnded" FROM pg_stat_activity
  WHERE pid = ANY($1) AND usename = current_user AND datname = current_database() AND application_name = current_setting('application_name')`;

/** Lends connections of a pool. One that failed is thrown away; nobody knows what else it would say. */
export class Connections {
  readonly #pool: pg.Pool;
  readonly #timeoutMs: number;
  /** The server's processes behind connections that were lost while they were in use. */
  readonly #lost = new Set<number>();

  constructor(pool: pg.Pool, timeoutMs: number) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
  }

  async use<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const client = await this.#pool.connect();
    client.on('error', hear);
    let failure: unknown;
    try {
      if (this.#lost.size > 0) await this.#endLost(client);
      return await work(client);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      const isLost = failure !== undefined && isOutcomeUnknown(failure);
      if (isLost && 'processID' in client && typeof client.processID === 'number') this.#lost.add(client.processID);
      client.off('error', hear);
      client.release(isLost);
    }
  }

  /** What a lost connection was asked may still be on its way to the server. Nothing goes on before that cannot be done late any more. */
  async #endLost(client: pg.PoolClient): Promise<void> {
    const pids = [...this.#lost];
    const eachMs = Math.floor(Math.min(MAX_END_MS, this.#timeoutMs / 2) / pids.length);
    const statement = { text: END, values: [pids, eachMs], query_timeout: this.#timeoutMs };
    const { rows } = await client.query<{ pid: number; isEnded: boolean }>(statement);
    const left = new Set(rows.filter(({ isEnded }) => !isEnded).map(({ pid }) => pid));
    for (const pid of pids) if (!left.has(pid)) this.#lost.delete(pid);
  }
}

/** The statement under way says what happened; as an event that nobody hears it would end the process. */
const hear = (): void => undefined;
