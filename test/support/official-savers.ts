import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import * as messages from '@langchain/core/messages';
import * as langgraph from '@langchain/langgraph';
import { type CheckpointTuple, MemorySaver } from '@langchain/langgraph-checkpoint';
import { adminClient, freshSchema } from './postgres.ts';

const GOLDEN = resolve(import.meta.dirname, '../golden/langgraph');

/** What the graphs of the golden databases are made of. */
export const LIBRARY = { ...langgraph, ...messages };

/** A database that the official SqliteSaver wrote. */
export const SQLITE_FILE = resolve(GOLDEN, 'sqlite-saver.db');

type Described = { readonly tuples: CheckpointTuple[]; readonly histories: { [thread: string]: [string, string[]][] } };

/** What the official saver itself read back from its golden database, by checkpoint id. */
export async function readDescribed(saver: 'sqlite-saver' | 'postgres-saver') {
  const text = readFileSync(resolve(GOLDEN, `${saver}-tuples.json`));
  const { tuples, histories } = (await new MemorySaver().serde.loadsTyped('json', text)) as Described;
  return { tuples, histories };
}

type Golden = { readonly ddl: string[]; readonly tables: { [table: string]: { [column: string]: unknown }[] } };

/** Loads the rows that the official PostgresSaver wrote into a schema of their own; answers its name. */
export async function loadPostgresSaver(): Promise<string> {
  const golden = JSON.parse(readFileSync(resolve(GOLDEN, 'postgres-saver.json'), 'utf8')) as Golden;
  const schema = freshSchema();
  const client = await adminClient();
  for (const sql of golden.ddl) await client.query(sql.replaceAll('{schema}', schema));
  for (const [table, rows] of Object.entries(golden.tables)) {
    for (const row of rows) {
      const columns = Object.keys(row);
      const places = columns.map((_, at) => `$${at + 1}`);
      const sql = `insert into ${schema}.${table} (${columns.join()}) values (${places.join()})`;
      await client.query(sql, Object.values(row).map(toColumn));
    }
  }
  return schema;
}

function toColumn(value: unknown): unknown {
  const isBytes = typeof value === 'object' && value !== null && 'base64' in value;
  return isBytes ? Buffer.from(String(value.base64), 'base64') : value;
}
