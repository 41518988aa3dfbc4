import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import {
  openPostgresSaverDatabase,
  openSqliteSaverDatabase,
  type ThreadSource,
} from '../../adapter/langgraph/index.ts';
import { messageOf, StorageError, UnsupportedError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { parseStorageAddress } from '../../storage/open/address.ts';
import { openStorage } from '../../storage/open/open.ts';
import type { Context } from '../base/context.ts';
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
export async function openSource({ folder, globals: { schema } }: Context, from: string): Promise<ThreadSource> {
  if (!isAddress(from)) return openSqliteSaverDatabase(resolve(folder, from));
  return openPostgresSaverDatabase({ connectionString: from, ...(schema !== undefined && { schema }) });
}

/** Opens a storage of ours. `--schema` is about the tables of LangGraph's saver. */
export async function openThreadStorage(
  { folder, globals, env }: Context,
  place: string,
  { create }: { readonly create: boolean },
): Promise<ChunkStorage> {
  const address = parseStorageAddress(place, { folder, tenant: globals.tenant ?? env.SAVESTATE_TENANT });
  return openStorage(address, { create, isInteractive: true });
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
    const message = messageOf(cause);
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

/** What a file takes up once it is closed, when its log is part of it; undefined for anything else. */
export function measureFile({ folder }: Context, place: string): number | undefined {
  if (isAddress(place)) return undefined;
  const found = statSync(resolve(folder, place.replace(/^sqlite:/, '')), { throwIfNoEntry: false });
  return found?.isFile() ? found.size : undefined;
}
