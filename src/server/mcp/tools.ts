import { z } from 'zod';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Client } from '../client/client.ts';
import type { Key, ReplyOf, RequestOf } from '../client/types.ts';
import { type Fields, type Route, splitKey } from '../contract/route.ts';
import { ROUTES } from '../contract/routes.ts';
import { flag } from '../contract/shapes.ts';
import { FLAGS } from '../handlers/timeline.ts';

/** What a model gave a tool, checked. */
export type ToolInput = Readonly<Record<string, unknown>> & { readonly limit?: number };

/** A tool: one route of the table under a short name. */
export type ToolRow = {
  readonly name: string;
  readonly key: Key;
  readonly title: string;
  /** What a model should know besides what the route says. */
  readonly hint?: string;
  /** It sets off what cannot be taken back. */
  readonly isFinal?: true;
  /** In place of asking the route once. */
  readonly read?: (client: Client, input: ToolInput, signal: AbortSignal) => Promise<unknown>;
};

/** Every tool, in the order in which they are used. */
export const TOOLS: readonly ToolRow[] = [
  { name: 'sessions', key: 'GET /v1/sessions', title: 'List sessions', hint: '`headId` is the newest checkpoint.' },
  {
    name: 'log',
    key: 'GET /v1/sessions/{session}/timeline',
    title: 'List checkpoints',
    hint: 'As rows, the newest first: what each did, who spoke, which tools were called.',
    read: (client, input, signal) => readLog(client, input as Parameters<typeof readLog>[1], signal),
  },
  { name: 'show', key: 'GET /v1/checkpoints/{checkpoint}/state', title: 'Show a state or a value in it' },
  { name: 'messages', key: 'GET /v1/checkpoints/{checkpoint}/messages', title: 'Read the messages of a state' },
  { name: 'diff', key: 'GET /v1/diff', title: 'Compare two checkpoints' },
  { name: 'grep', key: 'GET /v1/search', title: 'Search what was said and stored' },
  { name: 'blame', key: 'GET /v1/checkpoints/{checkpoint}/blame', title: 'Find what last set a value' },
  { name: 'drift', key: 'GET /v1/checkpoints/{checkpoint}/drift', title: 'Find loops, stalls and lost goals' },
  { name: 'memory_search', key: 'GET /v1/memory', title: 'Search long-term memory' },
  { name: 'requests', key: 'GET /v1/requests', title: 'List what people are asked' },
  {
    name: 'answer',
    key: 'POST /v1/sessions/{session}/requests/{request}',
    title: 'Answer a request',
    hint: 'The run goes on with this answer. Ask the person first.',
    isFinal: true,
  },
  { name: 'memory_add', key: 'POST /v1/memory', title: 'Remember something' },
  { name: 'fork', key: 'POST /v1/checkpoints/{checkpoint}/fork', title: 'Begin a branch at a checkpoint' },
  { name: 'rewind', key: 'POST /v1/sessions/{session}/rewind', title: 'Go back to an earlier checkpoint' },
  { name: 'tag', key: 'PUT /v1/sessions/{session}/tags/{tag}', title: 'Name a checkpoint' },
];

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 200;
const limit = z
  .int()
  .min(1)
  .max(MAX_LIMIT)
  .default(DEFAULT_LIMIT)
  .describe(`Maximum number; default ${DEFAULT_LIMIT}. Fewer are returned if they are large`);

/** Whether a tool changes something. */
export function isChange({ key }: ToolRow): boolean {
  return splitKey(key).method !== 'GET';
}

/** What a tool says about itself. */
export function describeTool(row: ToolRow) {
  const isReading = !isChange(row);
  return {
    title: row.title,
    description: [ROUTES[row.key].summary, ...(row.hint === undefined ? [] : [row.hint])]
      .join('. ')
      .replace(/\.?$/, '.'),
    inputSchema: inputOf(ROUTES[row.key]),
    annotations: {
      readOnlyHint: isReading,
      destructiveHint: row.isFinal === true,
      idempotentHint: isReading || row.key.startsWith('PUT '),
      openWorldHint: false,
    },
  };
}

/** The fields of path, query and body of a route as one object. Flags are real ones here, and pages are small. */
function inputOf({ params, query, body }: Route) {
  const given: Fields = { ...params, ...query, ...fieldsOf(body) };
  const fields = Object.entries(given).map(([name, field]) => [name, name === 'limit' ? limit : toReal(field)]);
  return z.strictObject(Object.fromEntries(fields) as Record<string, z.ZodType>);
}

function toReal(field: z.ZodType): z.ZodType {
  if (!(field instanceof z.ZodOptional) || field.unwrap() !== flag) return field;
  return z
    .boolean()
    .optional()
    .describe(field.description ?? '');
}

function fieldsOf(body: z.ZodType | undefined): Fields {
  return body instanceof z.ZodObject ? (body.shape as Fields) : {};
}

/** Asks the route of a tool. */
export async function callTool(
  row: ToolRow,
  input: ToolInput,
  { client, signal }: { client: Client; signal: AbortSignal },
) {
  if (row.read !== undefined) return row.read(client, input, signal);
  const { params, query, body }: Route = ROUTES[row.key];
  const pick = (fields: Fields = {}) => Object.fromEntries(Object.entries(input).filter(([name]) => name in fields));
  const ask = client.request as (key: Key, request: object) => Promise<unknown>;
  return ask(row.key, {
    params: pick(params),
    query: pick(query),
    ...(body !== undefined && { body: pick(fieldsOf(body)) }),
    signal,
  });
}

type LogRequest = {
  readonly session: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly ids?: readonly string[];
};
type Timeline = ReplyOf<'GET /v1/sessions/{session}/timeline'>;
type TimelineQuery = NonNullable<RequestOf<'GET /v1/sessions/{session}/timeline'>['query']>;

const UNREADABLE = FLAGS.deleted | FLAGS.damaged;

/** The checkpoints of a session as rows, the newest first, from the one before `cursor` on. */
export async function readLog(client: Client, { session, limit, cursor, ids }: LogRequest, signal: AbortSignal) {
  const ask = (query: TimelineQuery) =>
    client.request('GET /v1/sessions/{session}/timeline', { params: { session }, query, signal });
  if (cursor !== undefined && (await ask({ ids: [cursor] })).ids.length === 0)
    throw new InvalidInputError(`There is no cursor "${cursor}": give the "next" of the page before.`);
  const timeline = await ask(
    ids?.length ? { ids: ids.slice(-limit) } : withoutUndefined({ last: true, limit, cursor }),
  );
  const readable = timeline.ids.filter((_, place) => ((timeline.flags[place] ?? 0) & UNREADABLE) === 0);
  const labels =
    readable.length === 0
      ? { items: [] }
      : await client.request('GET /v1/labels', { query: { ids: readable }, signal });
  const byId = new Map(labels.items.map(({ id, ...label }) => [id, label]));
  const items = timeline.ids.map((id, place) => ({ ...toRow(timeline, place), ...byId.get(id) })).reverse();
  return { items, ...withoutUndefined({ next: timeline.next }) };
}

/** One checkpoint, from the columns of a timeline. */
function toRow(timeline: Timeline, place: number) {
  const { names, startMs, sinceMs, parents, elsewhere, words, flags } = timeline;
  const parent = timeline.ids[parents[place] ?? -1] ?? elsewhere[place];
  const signs = Object.entries(FLAGS).filter(([, flag]) => ((flags[place] ?? 0) & flag) !== 0);
  return withoutUndefined({
    id: timeline.ids[place],
    parentId: parent,
    branch: names.branches[timeline.branches[place] ?? -1],
    sequence: timeline.sequences[place],
    savedAt: new Date(startMs + (sinceMs[place] ?? 0)).toISOString(),
    status: names.statuses[timeline.statuses[place] ?? -1],
    agent: names.agents[timeline.agents[place] ?? -1],
    note: words[place],
    signs: signs.length === 0 ? undefined : signs.map(([name]) => name),
  });
}
