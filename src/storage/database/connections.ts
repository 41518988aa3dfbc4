import type pg from 'pg';
import { isOutcomeUnknown } from './postgres-error.ts';

/** A server process that was told to end does so when it looks up from its work; one that writes to a slow disk may take long. */
const MAX_END_MS = 1_000;

/** Only connections like this one: after a failover the number may be that of somebody else. */
const END = `SELECT pid, pg_terminate_backend(pid, $2) AS "isEnded" FROM pg_stat_activity
  WHERE pid = ANY($1) AND usename = current_user AND datname = current_database() AND application_name = current_setting('application_name')`;

/** As many as commits are under way at once. */
const MAX_KEPT = 4;
/** Longer than between two calls of a busy program. */
const KEPT_MS = 1_000;

/** A connection that is held back, and what hears of its end meanwhile. */
type Kept = { readonly client: pg.PoolClient; readonly drop: () => void };

/**
 * Lends connections of a pool. One that failed is thrown away; nobody knows what else it would say. Those of our own pool are held back for
 * the next call for a moment: the pool sets two timers whenever it lends one, which is 7 % of the processor time that a save takes here.
 */
export class Connections {
  readonly #pool: pg.Pool;
  readonly #timeoutMs: number;
  #mayKeep: boolean;
  /** The one that was used last comes last. */
  #kept: Kept[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** The server's processes behind connections that were lost while they were in use. */
  readonly #lost = new Set<number>();

  constructor(pool: pg.Pool, { timeoutMs, isOwn }: { readonly timeoutMs: number; readonly isOwn: boolean }) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
    this.#mayKeep = isOwn;
  }

  async use<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const client = this.#take() ?? (await this.#pool.connect());
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
      if (isLost || !this.#keep(client)) client.release(isLost);
    }
  }

  /** Gives back what is held back, and holds back no more. */
  close(): void {
    this.#mayKeep = false;
    clearTimeout(this.#timer);
    this.#giveBack();
  }

  #take(): pg.PoolClient | undefined {
    const kept = this.#kept.pop();
    if (kept === undefined) return undefined;
    kept.client.off('error', kept.drop);
    hold(kept.client, 'ref');
    return kept.client;
  }

  /** Whoever waits for a connection comes first. */
  #keep(client: pg.PoolClient): boolean {
    if (!this.#mayKeep || this.#kept.length === MAX_KEPT || this.#pool.waitingCount > 0) return false;
    const drop = (): void => {
      this.#kept = this.#kept.filter((kept) => kept.client !== client);
      client.release(true);
    };
    client.once('error', drop);
    hold(client, 'unref');
    this.#kept.push({ client, drop });
    this.#timer ??= setTimeout(() => this.#giveBack(), KEPT_MS).unref();
    this.#timer.refresh();
    return true;
  }

  #giveBack(): void {
    for (let client = this.#take(); client !== undefined; client = this.#take()) client.release();
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

/** A connection that nothing goes on at keeps no process alive. The types of `pg` do not know of this. */
function hold(client: object, how: 'ref' | 'unref'): void {
  const set: unknown = Reflect.get(client, how);
  if (typeof set === 'function') set.call(client);
}
