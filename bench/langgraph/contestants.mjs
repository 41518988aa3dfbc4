import { join } from 'node:path';
import { BaseCheckpointSaver, MemorySaver } from '@langchain/langgraph-checkpoint';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';
import { SavestateSaver } from '../../dist/adapter/langgraph/index.js';
import { InMemoryCheckpointStorage, SqliteCheckpointStorage } from '../../dist/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';

/**
 * Opens a contestant at a place: `{ folder, url }`. The same place opened again finds what was saved there. Answers the saver, what
 * closes it, and for those that live in memory the bytes they hold.
 */
export function openContestant(name, place) {
  return CONTESTANTS[name](place);
}

const CONTESTANTS = {
  'no checkpointer': async () => ({ saver: undefined, close: async () => undefined }),
  'a saver of nothing': async () => ({ saver: new SaverOfNothing(), close: async () => undefined }),
  'official memory': async (place) => {
    place.saver ??= new MemorySaver();
    return { saver: place.saver, close: async () => undefined, bytes: () => bufferBytes(place.saver) };
  },
  'official SQLite': async ({ folder }) => openOfficialSqlite(folder, 'NORMAL'),
  'official SQLite, FULL': async ({ folder }) => openOfficialSqlite(folder, 'FULL'),
  'official PostgreSQL': async ({ url }) => {
    const saver = PostgresSaver.fromConnString(url);
    await saver.setup();
    return { saver, close: () => saver.end() };
  },
  'our memory': async (place) => {
    place.storage ??= new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(place.storage);
    return { saver, close: async () => undefined, bytes: async () => (await place.storage.stats()).bytes };
  },
  'our SQLite, process-safe': async ({ folder }) => openOurSqlite(folder, 'process'),
  'our SQLite, power-safe': async ({ folder }) => openOurSqlite(folder, 'power'),
  'our PostgreSQL': async ({ url }) =>
    openOurs(new PostgresCheckpointStorage({ connectionString: url, tenant: 'bench' })),
};

/** What LangGraph itself does more when there is a checkpointer: the floor of all savers. */
class SaverOfNothing extends BaseCheckpointSaver {
  savesNothing = true;

  async getTuple() {
    return undefined;
  }

  async put({ configurable }, { id }) {
    const { thread_id, checkpoint_ns } = configurable;
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: id } };
  }

  async putWrites() {
    return undefined;
  }
}

/** `NORMAL` is what the saver runs with if nobody asks: a power cut can take the last commits. */
function openOfficialSqlite(folder, synchronous) {
  const saver = SqliteSaver.fromConnString(join(folder, 'threads.db'));
  saver.setup();
  saver.db.pragma(`synchronous = ${synchronous}`);
  return { saver, close: async () => saver.db.close() };
}

function openOurSqlite(folder, durability) {
  return openOurs(new SqliteCheckpointStorage({ path: join(folder, 'threads.db'), durability }));
}

function openOurs(storage) {
  return { saver: new SavestateSaver(storage), close: () => storage.close() };
}

/** All buffers in the nested tables of the official memory saver. */
function bufferBytes(saver) {
  const weigh = (value) => {
    if (value instanceof Uint8Array) return value.byteLength;
    if (typeof value !== 'object' || value === null) return 0;
    return Object.values(value).reduce((sum, part) => sum + weigh(part), 0);
  };
  return weigh(saver.storage) + weigh(saver.writes);
}
