import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseError } from 'pg';
import { PostgresServer, type PostgresSettings } from './postgres-server.ts';

const STREAM_TIMEOUT_MS = 300_000;
const PROMOTE_TIMEOUT_MS = 300_000;
const CANCELLED_BY_RECOVERY = '40001';
const POLL_MS = 5;
const STANDBY_NAME = 'standby';

/** How a pair is started. */
export type PostgresPairOptions = {
  /** Whether the primary answers a commit only when the standby has it on its disk. */
  readonly synchronous: boolean;
  /** Settings of both servers, on top of the defaults. */
  readonly settings?: PostgresSettings;
};

/** A server, and another one that follows it and can take its place. */
export class PostgresPair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;

  private constructor(primary: PostgresServer, standby: PostgresServer) {
    this.primary = primary;
    this.standby = standby;
  }

  /** Starts both, and answers when the standby follows. */
  static async start({ synchronous, settings = {} }: PostgresPairOptions): Promise<PostgresPair> {
    const primary = await PostgresServer.start({
      settings: {
        ...settings,
        wal_level: 'replica',
        synchronous_standby_names: synchronous ? `FIRST 1 (${STANDBY_NAME})` : '',
      },
    });
    const opened = [primary];
    try {
      // Both began as copies of one cluster: the copy is the base backup.
      const standby = await PostgresServer.start({
        settings: { ...settings, ...followerOf(primary) },
        isStandby: true,
      });
      opened.push(standby);
      const pair = new PostgresPair(primary, standby);
      await pair.#waitUntilStreaming(synchronous);
      return pair;
    } catch (error) {
      await Promise.all(opened.map((server) => server.close()));
      throw error;
    }
  }

  /** Kills all processes of the primary at once. */
  async killPrimary(): Promise<void> {
    await this.primary.kill();
  }

  /** Makes the standby a server of its own; answers how many milliseconds went by until it could write. */
  async promote(): Promise<number> {
    const startMs = performance.now();
    const client = await this.standby.connect();
    // A statement that waits for the end of the recovery may be cancelled by the recovery; so each only asks, until one is not.
    const ask = (text: string) =>
      client.query<{ readonly isDone: boolean }>(`select ${text} as "isDone"`).then(
        ({ rows }) => rows[0]?.isDone === true,
        (error: unknown) => {
          if (!(error instanceof DatabaseError) || error.code !== CANCELLED_BY_RECOVERY) throw error;
          return false;
        },
      );
    while (!(await ask('pg_promote(false)'))) await sleep(POLL_MS);
    while (!(await ask('not pg_is_in_recovery()'))) {
      if (performance.now() - startMs > PROMOTE_TIMEOUT_MS)
        throw new Error(`The standby was not promoted. ${this.standby.log}`);
      await sleep(POLL_MS);
    }
    await client.end();
    return performance.now() - startMs;
  }

  /** Waits until the standby shows all that the primary has committed by now. */
  async waitUntilCaughtUp(): Promise<void> {
    await this.#waitUntil('replay_lsn >= pg_current_wal_lsn()');
  }

  /** Ends both servers, and removes their files. */
  async close(): Promise<void> {
    await Promise.all([this.primary.close(), this.standby.close()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #waitUntilStreaming(synchronous: boolean): Promise<void> {
    return this.#waitUntil(`state = 'streaming' and sync_state = '${synchronous ? 'sync' : 'async'}'`);
  }

  async #waitUntil(condition: string): Promise<void> {
    const deadlineMs = Date.now() + STREAM_TIMEOUT_MS;
    const client = await this.primary.connect();
    const query = `select from pg_stat_replication where application_name = $1 and ${condition}`;
    try {
      while ((await client.query(query, [STANDBY_NAME])).rowCount === 0) {
        if (Date.now() > deadlineMs)
          throw new Error(`Not in ${STREAM_TIMEOUT_MS} ms: ${condition}. ${this.standby.log}`);
        await sleep(POLL_MS);
      }
    } finally {
      await client.end();
    }
  }
}

/** It names no standby of its own, so that it waits for none once it is promoted. */
function followerOf(primary: PostgresServer): PostgresSettings {
  return {
    primary_conninfo: `host=${primary.host} port=${primary.port} user=postgres application_name=${STANDBY_NAME}`,
    wal_retrieve_retry_interval: '100ms',
    synchronous_standby_names: '',
  };
}
