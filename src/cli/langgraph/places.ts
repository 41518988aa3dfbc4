import { existsSync, statSync } from 'node:fs';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import {
  openPostgresSaverDatabase,
  openSqliteSaverDatabase,
  type ThreadSource,
} from '../../adapter/langgraph/index.ts';
import { NotFoundError, StorageError, UnsupportedError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { type Arguments, UsageError } from './arguments.ts';
import { checkExportFile } from './export-file.ts';

/** An official saver that is open for writing. */
export type OfficialSaver = {
  readonly saver: BaseCheckpointSaver;
  close(): Promise<void>;
};

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

function isAddress(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place);
}

/** A place as it may be shown: without the password. */
export function showPlace(place: string): string {
  return isAddress(place) ? place.replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1@') : place;
}

/** Opens a database of an official saver for reading. */
export async function openSource({ from, schema }: Arguments): Promise<ThreadSource> {
  if (!isAddress(from)) return openSqliteSaverDatabase(from);
  return openPostgresSaverDatabase({ connectionString: from, ...(schema !== undefined && { schema }) });
}

/** Opens a storage of ours. */
export async function openStorage(
  place: string,
  { tenant, mustExist }: { readonly tenant: string | undefined; readonly mustExist: boolean },
): Promise<ChunkStorage> {
  if (!isAddress(place)) {
    if (mustExist && !existsSync(place)) throw new NotFoundError(`There is no file ${place}.`, { details: { place } });
    return new SqliteCheckpointStorage({ path: place });
  }
  if (tenant === undefined) throw new UsageError('Savestate in PostgreSQL needs --tenant <name>.');
  const { PostgresCheckpointStorage } = await import('../../storage/postgres/index.ts');
  return new PostgresCheckpointStorage({ connectionString: place, tenant });
}

/** Opens an official saver for writing; its package must be installed. */
export async function openOfficialSaver({ to, schema }: Arguments): Promise<OfficialSaver> {
  if (!isAddress(to)) {
    checkExportFile(to);
    const { SqliteSaver } = await load<SqliteModule>('@langchain/langgraph-checkpoint-sqlite');
    return explainFailure(to, async () => {
      const saver = SqliteSaver.fromConnString(to);
      saver.setup();
      return { saver, close: async () => saver.db.close() };
    });
  }
  const { PostgresSaver } = await load<PostgresModule>('@langchain/langgraph-checkpoint-postgres');
  return explainFailure(to, async () => {
    const saver = PostgresSaver.fromConnString(to, schema === undefined ? {} : { schema });
    await saver.setup();
    return { saver, close: () => saver.end() };
  });
}

/** Drivers of other packages throw errors of their own. */
async function explainFailure<Result>(place: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new StorageError(
      `Threads cannot be exported to ${showPlace(place)}: LangGraph's saver cannot open it (${message}). Nothing was written; check that it is there and that you may write to it.`,
      { cause },
    );
  }
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

/** What a file takes up once it is closed, when its log is part of it; undefined for an address. */
export function measureFile(place: string): number | undefined {
  return isAddress(place) ? undefined : statSync(place, { throwIfNoEntry: false })?.size;
}
