import type { RunnableConfig } from '@langchain/core/runnables';
import { InvalidInputError } from '../../../core/errors.ts';
import type { SessionId } from '../../../core/record/id.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { decodePart, encodePart, sessionsBelow } from '../../session-name.ts';

/** Where LangGraph keeps a line of checkpoints: a thread, and in it the namespace of the graph or subgraph. */
export type ThreadPlace = { readonly threadId: string; readonly namespace: string };

const PREFIX = 'lg/';

/** What a session id may hold of each name; longer ones stand there by their digest, and as they are in every checkpoint. */
const MAX_PART_CHARS = 240;

/** An escaped character takes this many. */
const ESCAPED_CHARS = 5;

/** The session of a thread and namespace: one to one, so that two never share a session. */
export function sessionOf({ threadId, namespace }: ThreadPlace): SessionId {
  const thread = `${PREFIX}${encodeName(threadId)}`;
  return (namespace === '' ? thread : `${thread}/${encodeName(namespace)}`) as SessionId;
}

/** The sessions of a thread: that of its root namespace, whether it exists or not, and those of its subgraphs. */
export async function sessionsOfThread(storage: ChunkStorage, threadId: string): Promise<SessionId[]> {
  const root = sessionOf({ threadId, namespace: '' });
  return [root, ...(await sessionsBelow(storage, `${root}/`))];
}

/** The sessions of all threads, without those of their subgraphs. */
export async function sessionsOfThreads(storage: ChunkStorage): Promise<SessionId[]> {
  const sessions = await sessionsBelow(storage, PREFIX);
  return sessions.filter((sessionId) => !sessionId.includes('/', PREFIX.length));
}

/** Whether a session id holds the names themselves, for certain. */
export function isShort({ threadId, namespace }: ThreadPlace): boolean {
  return Math.max(threadId.length, namespace.length) * ESCAPED_CHARS <= MAX_PART_CHARS;
}

/** Reads a session id back; undefined if it is not one of ours, or holds a digest instead of a name. */
export function placeOf(sessionId: string): ThreadPlace | undefined {
  if (!sessionId.startsWith(PREFIX) || sessionId.includes('#')) return undefined;
  const [threadId = '', namespace = ''] = sessionId.slice(PREFIX.length).split('/').map(decodePart);
  return { threadId, namespace };
}

function encodeName(name: string): string {
  const encoded = encodePart(name);
  return encoded.length <= MAX_PART_CHARS ? encoded : `#${digestText(JSON.stringify(name))}`;
}

/** Reads the place out of a config; undefined if it names no thread. */
export function findPlace(config: RunnableConfig): ThreadPlace | undefined {
  const { thread_id, checkpoint_ns } = config.configurable ?? {};
  if (thread_id === undefined || thread_id === null) return undefined;
  return { threadId: parseText(thread_id, 'thread_id'), namespace: parseText(checkpoint_ns ?? '', 'checkpoint_ns') };
}

/** Like `findPlace`, for calls that cannot do without. */
export function parsePlace(config: RunnableConfig): ThreadPlace {
  const place = findPlace(config);
  if (place !== undefined && place.threadId !== '') return place;
  throw new InvalidInputError(
    'The config has no thread_id. Pass { configurable: { thread_id: "..." } } to the graph, so that its state can be saved.',
    { details: { field: 'configurable.thread_id' } },
  );
}

/** Accepts a thread's id or throws. */
export function parseThreadId(threadId: unknown): string {
  const text = parseText(threadId, 'thread_id');
  if (text !== '') return text;
  throw new InvalidInputError('thread_id must not be empty.', { details: { field: 'configurable.thread_id' } });
}

/** Which checkpoint a config asks for; undefined for the latest. */
export function findCheckpointId(config: RunnableConfig): string | undefined {
  const id: unknown = config.configurable?.checkpoint_id || config.configurable?.thread_ts;
  return id === undefined || id === null || id === '' ? undefined : parseText(id, 'checkpoint_id');
}

/** Numbers are taken for their digits, as LangGraph's SQL savers do. */
function parseText(value: unknown, field: string): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new InvalidInputError(`${field} must be a text; found ${value === null ? 'null' : typeof value}.`, {
    details: { field: `configurable.${field}` },
  });
}

/** The config of a checkpoint, as LangGraph wants it back; without an id that of its thread. */
export function configOf({ threadId, namespace }: ThreadPlace, checkpointId?: string): RunnableConfig {
  const id = checkpointId !== undefined && { checkpoint_id: checkpointId };
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, ...id } };
}
