import type { RunnableConfig } from '@langchain/core/runnables';
import type { CheckpointListOptions } from '@langchain/langgraph-checkpoint';
import { withoutUndefined } from '../../../core/defined.ts';
import { checkValue, wholeFrom } from '../../../core/options.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { parseRow } from '../../../manager/engine/records.ts';
import type { CheckpointQuery, CheckpointRow, ChunkStorage } from '../../../storage/contract.ts';
import { cursorBefore } from '../record/checkpoint-id.ts';
import { findGraphHeader, type GraphHeader } from '../record/graph-header.ts';
import type { GraphCheckpoint } from '../record/graph-rows.ts';
import { findCheckpointId, findPlace, sessionOf, sessionsOfThread } from '../record/thread-session.ts';

/** Rows read at a time. */
const PAGE = 100;

/** What a list asks for. */
type Listing = {
  readonly threadId: string | undefined;
  readonly namespace: string | undefined;
  readonly graphId: string | undefined;
  readonly before: string | undefined;
  readonly limit: number;
  readonly query: Omit<CheckpointQuery, 'limit'>;
};

/** LangGraph's checkpoints that fit, newest first, without their states. Reads a page at a time. */
export async function* listGraphCheckpoints(
  engine: Engine,
  config: RunnableConfig,
  options?: CheckpointListOptions | null,
): AsyncGenerator<GraphCheckpoint> {
  const listing = parseListing(engine, config, options ?? {});
  if (listing.limit <= 0) return;
  let left = listing.limit;
  for await (const found of readGraphs(engine, listing)) {
    if (!isAsked(found.graph, listing)) continue;
    yield found;
    if (--left === 0) return;
  }
}

/** What LangGraph saved among the rows, of each checkpoint the newest record. */
async function* readGraphs(engine: Engine, listing: Listing): AsyncGenerator<GraphCheckpoint> {
  const replaced = new Set<CheckpointId>();
  for await (const row of await openRows(engine, listing)) {
    const checkpoint = parseRow(row);
    const graph = findGraphHeader(checkpoint);
    if (graph === undefined) continue;
    if (graph.replaces !== undefined) replaced.add(graph.replaces);
    if (!replaced.has(row.id)) yield { checkpoint, graph };
  }
}

function parseListing(
  { codec }: Engine,
  config: RunnableConfig,
  { limit: given, before, filter }: CheckpointListOptions,
): Listing {
  const limit = given ?? Number.POSITIVE_INFINITY; // callers in JavaScript give null
  if (limit !== Number.POSITIVE_INFINITY) checkValue(limit, wholeFrom(0), 'The option "limit" of list()');
  const place = findPlace(config);
  const namespace: unknown = config.configurable?.checkpoint_ns;
  const beforeId = findCheckpointId(before ?? {});
  const metadata = Object.entries(withoutUndefined(filter ?? {})).map(([key, value]) => [key, codec.encodeJson(value)]);
  return {
    threadId: place?.threadId,
    namespace: namespace === undefined ? undefined : String(namespace),
    graphId: findCheckpointId(config),
    before: beforeId,
    limit,
    query: {
      ...(beforeId !== undefined && withoutUndefined({ after: cursorBefore(beforeId) })),
      ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
    },
  };
}

/** The rows of the session that was asked for, of all sessions of a thread, or of all there are. */
async function openRows({ storage }: Engine, listing: Listing): Promise<AsyncIterable<CheckpointRow>> {
  const { threadId, namespace } = listing;
  if (threadId === undefined) return readRows(storage, listing);
  const sessions =
    namespace === undefined ? await sessionsOfThread(storage, threadId) : [sessionOf({ threadId, namespace })];
  return mergeNewest(sessions.map((sessionId) => readRows(storage, listing, sessionId)));
}

async function* readRows(
  storage: ChunkStorage,
  { query, limit }: Listing,
  sessionId?: SessionId,
): AsyncGenerator<CheckpointRow> {
  let { after } = query;
  const asked = { ...query, ...(sessionId !== undefined && { sessionId }), limit: Math.min(PAGE, limit + 1) };
  for (;;) {
    const rows = await storage.listCheckpoints({ ...asked, ...(after !== undefined && { after }) });
    yield* rows;
    after = rows.at(-1)?.id;
    if (rows.length < asked.limit) return;
  }
}

/** Rows of several sessions, each newest first, as one list. */
async function* mergeNewest(sources: readonly AsyncGenerator<CheckpointRow>[]): AsyncGenerator<CheckpointRow> {
  const next = await Promise.all(sources.map((source) => source.next()));
  for (;;) {
    let newest = -1;
    for (const [at, { value, done }] of next.entries()) {
      if (done !== true && (newest < 0 || value.id > next[newest]?.value?.id)) newest = at;
    }
    if (newest < 0) return;
    yield next[newest]?.value as CheckpointRow;
    next[newest] = await (sources[newest] as AsyncGenerator<CheckpointRow>).next();
  }
}

function isAsked({ place, id }: GraphHeader, { namespace, graphId, before }: Listing): boolean {
  return (
    (namespace === undefined || place.namespace === namespace) &&
    (graphId === undefined || id === graphId) &&
    (before === undefined || id < before)
  );
}
