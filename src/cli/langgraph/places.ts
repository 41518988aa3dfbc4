import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import {
  openPostgresSaverDatabase,
  openSqliteSaverDatabase,
  type ThreadSource,
} from '../../adapter/langgraph/index.ts';
import { InvalidInputError, messageOf, StorageError, UnsupportedError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { APPLICATION_ID } from '../../storage/sqlite/sqlite-schema.ts';
import type { Context } from '../base/context.ts';
import { parseAddress } from '../place/address.ts';

/** An official saver that is open for writing. */
type OfficialSaver = { readonly saver: BaseCheckpointSaver; close(): Promise<void> };

type SqliteModule = {
  readonly SqliteSaver: {
    fromConnString(path: string): BaseCheckpointSaver & { setup(): void; db: { close(): void } };
  };
};
type PostgresModule = {
  readonly PostgresSaver: {
    fromConnString(
      address: string,
      options: { schema?: string },
    ): BaseCheckpointSaver & { setup(): Promise<void>; end(): Promise<void> };
  };
};

/** What every SQLite file begins with, and where it says whose it is. */
const SQLITE_MAGIC = Buffer.from('SQLite format 3\0');
const HEADER_BYTES = 100;
const APPLICATION_ID_AT = 68;

function isAddress(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place);
}

/** Opens a database of an official saver for reading. */
export async function openSource({ folder, globals: { schema } }: Context, from: string): Promise<ThreadSource> {
  if (!isAddress(from)) return openSqliteSaverDatabase(resolve(folder, from));
  return openPostgresSaverDatabase({ connectionString: from, ...(schema !== undefined && { schema }) });
}

/** Opens a storage of ours. `--schema` is about the tables of LangGraph's saver. */
export async function openThreadStorage(
  context: Context,
  place: string,
  { create }: { readonly create: boolean },
): Promise<ChunkStorage> {
  const { folder, globals, env } = context;
  const address = parseAddress(place, { folder, env, tenant: globals.tenant ?? env.SAVESTATE_TENANT });
  return context.openAt(address, { create });
}

/** Opens an official saver for writing; its package must be installed. */
export async function openOfficialSaver({ folder, globals }: Context, to: string): Promise<OfficialSaver> {
  if (!isAddress(to)) {
    const path = resolve(folder, to);
    checkExportFile(path);
    const { SqliteSaver } = await load<SqliteModule>('@langchain/langgraph-checkpoint-sqlite');
    return explainFailure(path, async () => {
      const saver = SqliteSaver.fromConnString(path);
      saver.setup();
      return { saver, close: async () => saver.db.close() };
    });
  }
  const { PostgresSaver } = await load<PostgresModule>('@langchain/langgraph-checkpoint-postgres');
  const { schema } = globals;
  return explainFailure(to.replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1@'), async () => {
    const saver = PostgresSaver.fromConnString(to, schema === undefined ? {} : { schema });
    await saver.setup();
    return { saver, close: () => saver.end() };
  });
}

async function load<Module>(name: string): Promise<Module> {
  try {
    return (await import(name)) as Module;
  } catch (cause) {
    throw new UnsupportedError(`To export there, LangGraph's own package is needed. Install it: npm install ${name}`, {
      cause,
    });
  }
}

/** Drivers of other packages throw errors of their own. */
async function explainFailure<Result>(place: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    throw new StorageError(
      `Threads cannot be exported to ${place}: LangGraph's saver cannot open it (${messageOf(cause)}). Nothing was written; check that it is there and that you may write to it.`,
      { cause },
    );
  }
}

/** Refuses what LangGraph's SqliteSaver cannot take. By itself it would make its tables in any database, also in one of ours. */
function checkExportFile(path: string): void {
  const found = findObstacle(path);
  if (found === undefined) return;
  throw new InvalidInputError(
    `Threads cannot be exported to ${path}: ${found}. Nothing was written; name a file of SqliteSaver, or a new one.`,
    { details: { path } },
  );
}

function findObstacle(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return existsSync(dirname(path)) ? undefined : `there is no folder ${dirname(path)}`;
  if (found.isDirectory()) return 'it is a folder';
  if (found.size === 0) return undefined;
  const header = readHeader(path);
  if (!header.subarray(0, SQLITE_MAGIC.length).equals(SQLITE_MAGIC)) return 'it is not a SQLite database';
  return header.length === HEADER_BYTES && header.readUInt32BE(APPLICATION_ID_AT) === APPLICATION_ID
    ? 'it is a database of Savestate itself'
    : undefined;
}

function readHeader(path: string): Buffer {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    const header = Buffer.alloc(HEADER_BYTES);
    return header.subarray(0, readSync(file, header));
  } catch (cause) {
    throw new StorageError(`The file ${path} cannot be read (${messageOf(cause)}). Check its permissions.`, { cause });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** What a file takes up once it is closed, when its log is part of it; undefined for anything else. */
export function measureFile({ folder }: Context, place: string): number | undefined {
  if (isAddress(place)) return undefined;
  const found = statSync(resolve(folder, place.replace(/^sqlite:/, '')), { throwIfNoEntry: false });
  return found?.isFile() ? found.size : undefined;
}
