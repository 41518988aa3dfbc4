// Made the databases of this folder, once, with the official savers of LangGraph (checkpoint-sqlite 1.0.4, checkpoint-postgres
// 1.0.5, langgraph 1.4.18). No test runs it. It takes the packages from the folder it is started in, so:
//   cd bench/langgraph && npm install && node ../../test/golden/langgraph/create.mjs <empty folder>
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startPostgres } from '../../../bench/postgres-server.mjs';
import { deltaGraph, talkGraph, writeThreads } from './graphs.mjs';

const [folder = ''] = process.argv.slice(2);
const require = createRequire(join(process.cwd(), 'package.json'));
const library = { ...require('@langchain/langgraph'), ...require('@langchain/core/messages') };

await createSqlite();
await createPostgres();

async function createSqlite() {
  const { SqliteSaver } = require('@langchain/langgraph-checkpoint-sqlite');
  const saver = SqliteSaver.fromConnString(join(folder, 'sqlite-saver.db'));
  await writeThreads(library, saver);
  await describe(saver, 'sqlite-saver');
  saver.db.close();
}

/** What the official saver itself reads back, in its own serialization; and what graphs see there. */
async function describe(saver, name) {
  const tuples = [];
  for await (const tuple of saver.list({})) tuples.push(tuple);
  const [, bytes] = await saver.serde.dumpsTyped(tuples);
  const histories = {};
  for (const [thread, graph] of [['talk', talkGraph(library, saver)], ['delta', deltaGraph(library, saver)]]) {
    histories[thread] = [];
    for await (const { config, values } of graph.getStateHistory({ configurable: { thread_id: thread } }))
      histories[thread].push([config.configurable.checkpoint_id, (values.messages ?? []).map(({ content }) => content)]);
  }
  const text = JSON.stringify({ tuples: JSON.parse(Buffer.from(bytes).toString()), histories }, null, 1);
  writeFileSync(join(folder, `${name}-tuples.json`), `${text}\n`);
}

/** The statements that make the tables, and the rows; bytes in base64. */
async function createPostgres() {
  const { PostgresSaver } = require('@langchain/langgraph-checkpoint-postgres');
  const { Pool } = require('pg');
  const server = await startPostgres();
  const pool = new Pool({ connectionString: server.url });
  const ddl = [];
  pool.on('connect', (client) => {
    const query = client.query;
    client.query = (sql, ...rest) => {
      if (/^\s*(CREATE|ALTER)\b/.test(sql)) ddl.push(sql.replaceAll('"official"', '"{schema}"'));
      return Reflect.apply(query, client, [sql, ...rest]);
    };
  });
  const saver = new PostgresSaver(pool, undefined, { schema: 'official' });
  await saver.setup();
  await writeThreads(library, saver);
  await describe(saver, 'postgres-saver');
  const tables = {};
  for (const table of ['checkpoint_migrations', 'checkpoints', 'checkpoint_blobs', 'checkpoint_writes']) {
    const { rows } = await pool.query(`SELECT * FROM official.${table} ORDER BY 1`);
    tables[table] = rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, plain(value)])));
  }
  await pool.end();
  await server.stop();
  writeFileSync(join(folder, 'postgres-saver.json'), `${JSON.stringify({ ddl, tables }, null, 1)}\n`);
}

function plain(value) {
  return Buffer.isBuffer(value) ? { base64: value.toString('base64') } : value;
}
