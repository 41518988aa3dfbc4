import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { findFreePort } from './free-port.ts';
import type { GuardedFolder } from './guarded-folder.ts';
import { PostgresInstallation } from './postgres-installation.ts';
import { runningChildren } from './process-table.ts';

const HOST = '127.0.0.1';
const PORT_ATTEMPTS = 10;
/** Crash recovery on a slow disk is what takes long. */
const START_TIMEOUT_MS = 60_000;
const KILL_TIMEOUT_MS = 10_000;
const POLL_MS = 5;

/** Settings of postgresql.conf, by name. */
export type PostgresSettings = Readonly<Record<string, string>>;

const DEFAULT_SETTINGS: PostgresSettings = {
  listen_addresses: HOST,
  max_connections: '200',
  shared_buffers: '32MB',
  fsync: 'on',
  synchronous_commit: 'on',
  // In the data folder, so that a killed server leaves nothing outside of it.
  dynamic_shared_memory_type: 'mmap',
};

/** How a server is started. */
export type PostgresServerOptions = {
  /** They come on top of the defaults; `ALTER SYSTEM` goes above both. */
  readonly settings?: PostgresSettings;
  /** Where the server makes its own folder; the system's temporary folder if absent. */
  readonly folder?: string;
  /** Whether it follows another server, named by the setting `primary_conninfo`. */
  readonly isStandby?: boolean;
};

/** A real PostgreSQL server on a loopback port, with a new cluster. It goes, with its files, when this process does. */
export class PostgresServer {
  readonly #installation: PostgresInstallation;
  readonly #folder: GuardedFolder;
  #port = 0;
  #process: ChildProcess | undefined;

  private constructor(installation: PostgresInstallation, folder: GuardedFolder) {
    this.#installation = installation;
    this.#folder = folder;
  }

  /** Makes a cluster, and answers when the server takes connections. */
  static async start({
    settings = {},
    folder,
    isStandby = false,
  }: PostgresServerOptions = {}): Promise<PostgresServer> {
    const installation = await PostgresInstallation.open();
    const server = new PostgresServer(installation, installation.createFolder(folder));
    try {
      await server.#createCluster(settings);
      if (isStandby) await writeFile(join(server.#data, 'standby.signal'), '');
      await server.#startOnFreePort();
      return server;
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  get port(): number {
    return this.#port;
  }

  get host(): string {
    return HOST;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  /** What the server has logged since its first start. */
  get log(): string {
    return readFileSync(this.#logFile, 'utf8');
  }

  get #data(): string {
    return join(this.#folder.path, 'data');
  }

  get #sockets(): string {
    return join(this.#folder.path, 'sockets');
  }

  get #logFile(): string {
    return join(this.#folder.path, 'server.log');
  }

  /** The address of a database of this server. Nobody needs a password. */
  url(database = 'postgres', user = 'postgres'): string {
    return `postgres://${encodeURIComponent(user)}@${HOST}:${this.#port}/${encodeURIComponent(database)}`;
  }

  /** A connection as the superuser; the caller ends it. That the server goes away is no error for it. */
  async connect(): Promise<Client> {
    const client = new Client({ connectionString: this.url() });
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }

  /** Adds settings; they count from the next start, or from the next reload where PostgreSQL allows that. */
  async configure(settings: PostgresSettings): Promise<void> {
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`);
    await appendFile(join(this.#data, 'postgresql.conf'), lines.join(''));
  }

  /** Shuts the server down cleanly, without waiting for its clients. The data stays. */
  async stop(): Promise<void> {
    await this.#end('SIGINT');
  }

  /** Kills all processes of the server at once, as a crash does. The data stays as it was at that moment. */
  async kill(): Promise<void> {
    const postmaster = this.#process;
    if (postmaster?.pid === undefined) return;
    const memoryId = this.#sharedMemoryId();
    postmaster.kill('SIGSTOP'); // it must neither start another child nor see one die
    await killChildren(postmaster.pid);
    await this.#end('SIGKILL');
    // A crashed server leaves it behind until its next start, which may never come; the system has room for some thousands.
    spawnSync('ipcrm', ['-m', memoryId]);
  }

  /** Starts the server again on the same data and port; stops it before, if it runs. */
  async restart(): Promise<void> {
    await this.stop();
    await this.#start();
  }

  /** Ends the server at once, and removes its files. Can be called again. */
  async close(): Promise<void> {
    await this.#end('SIGQUIT');
    await this.#folder.remove();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #createCluster(settings: PostgresSettings): Promise<void> {
    await this.#installation.createCluster(this.#data);
    await this.#installation.createOwnedFolder(this.#sockets);
    await this.configure({ ...DEFAULT_SETTINGS, unix_socket_directories: this.#sockets, ...settings });
  }

  async #startOnFreePort(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.#port = await findFreePort();
      try {
        return await this.#start();
      } catch (error) {
        if (attempt === PORT_ATTEMPTS || !this.log.includes('could not create any TCP/IP sockets')) throw error;
      }
    }
  }

  async #start(): Promise<void> {
    const log = openSync(this.#logFile, 'a');
    const postmaster = spawn(
      this.#installation.program('postgres'),
      ['-D', this.#data, '-c', `port=${this.#port}`], // on the command line, so that the file never names two
      { ...this.#installation.account, cwd: '/', detached: true, stdio: ['ignore', log, log] },
    );
    closeSync(log);
    this.#folder.watch(postmaster.pid);
    await once(postmaster, 'spawn');
    this.#process = postmaster;
    postmaster.once('exit', () => this.#forget(postmaster));
    await this.#waitUntilReady(postmaster);
  }

  #forget(postmaster: ChildProcess): void {
    if (this.#process !== postmaster) return;
    this.#process = undefined;
    this.#folder.watch(undefined);
  }

  /** The server writes how far it is into its lock file, where `pg_ctl` looks too. */
  async #waitUntilReady(postmaster: ChildProcess): Promise<void> {
    const deadlineMs = Date.now() + START_TIMEOUT_MS;
    while (!this.#isReady(postmaster)) {
      if (this.#process !== postmaster) throw new Error(`The server did not start. ${this.log}`);
      if (Date.now() > deadlineMs) throw new Error(`The server is not ready after ${START_TIMEOUT_MS} ms. ${this.log}`);
      await sleep(POLL_MS);
    }
  }

  #isReady(postmaster: ChildProcess): boolean {
    const [pid, , , , , , , status = ''] = this.#lockFile();
    return Number(pid) === postmaster.pid && /^(ready|standby)/.test(status);
  }

  #sharedMemoryId(): string {
    const [, , , , , , keyAndId = ''] = this.#lockFile();
    return keyAndId.trim().split(/\s+/)[1] ?? '';
  }

  #lockFile(): string[] {
    try {
      return readFileSync(join(this.#data, 'postmaster.pid'), 'utf8').split('\n');
    } catch {
      return []; // not written yet
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const postmaster = this.#process;
    if (postmaster === undefined) return;
    const ended = once(postmaster, 'exit');
    postmaster.kill(signal);
    await ended;
    this.#forget(postmaster);
  }
}

/** Kills until nothing is left: a child may have been on its way into the world at the first look. */
async function killChildren(parentPid: number): Promise<void> {
  const deadlineMs = Date.now() + KILL_TIMEOUT_MS;
  for (let pids = runningChildren(parentPid); pids.length > 0; pids = runningChildren(parentPid)) {
    if (Date.now() > deadlineMs) throw new Error(`Processes ${pids.join(', ')} do not die.`);
    for (const pid of pids) killOne(pid);
    await sleep(1);
  }
}

function killOne(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
