// LangGraph's embed server on a SQLite file: `node server.mjs <database>` prints its address and runs until it is ended.
import { serve } from '@hono/node-server';
import { createEmbedServer } from '@langchain/langgraph-api/experimental/embed';
import { SqliteCheckpointStorage } from 'savestate';
import { SavestateSaver, SavestateStore, SavestateThreads } from 'savestate/langgraph';
import { compileRefundGraph } from './refund-graph.mjs';

const storage = new SqliteCheckpointStorage({ path: process.argv[2] });
const checkpointer = new SavestateSaver(storage);
const refund = compileRefundGraph({ checkpointer, think: async () => undefined, tell: () => undefined });
const store = new SavestateStore({ storage, name: 'threads' });
const threads = new SavestateThreads(checkpointer, store, { graph: 'refund' }); // the one line
const { fetch } = createEmbedServer({ graph: { refund }, checkpointer, threads });
serve({ fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => console.log(`http://127.0.0.1:${port}`));
