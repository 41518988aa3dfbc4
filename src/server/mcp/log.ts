import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Client } from '../client/client.ts';
import type { ReplyOf } from '../client/types.ts';
import { FLAGS } from '../handlers/timeline.ts';

type LogRequest = {
  readonly session: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly ids?: readonly string[];
};
type Timeline = ReplyOf<'GET /v1/sessions/{session}/timeline'>;

const UNREADABLE = FLAGS.deleted | FLAGS.damaged;

/** The checkpoints of a session as rows, the newest first, from the one before `cursor` on. */
export async function readLog(client: Client, request: LogRequest, signal: AbortSignal) {
  const params = { session: request.session };
  const all = request.ids ?? (await readIds(client, request.session, signal));
  const end = request.cursor === undefined ? all.length : all.indexOf(request.cursor);
  if (end < 0)
    throw new InvalidInputError(`There is no cursor "${request.cursor}": give the "next" of the page before.`);
  const ids = all.slice(Math.max(0, end - request.limit), end);
  if (ids.length === 0) return { items: [] };
  const timeline = await client.request('GET /v1/sessions/{session}/timeline', {
    params,
    query: { ids: [...ids] },
    signal,
  });
  const readable = timeline.ids.filter((_, place) => ((timeline.flags[place] ?? 0) & UNREADABLE) === 0);
  const labels =
    readable.length === 0
      ? { items: [] }
      : await client.request('GET /v1/labels', { query: { ids: readable }, signal });
  const byId = new Map(labels.items.map(({ id, ...label }) => [id, label]));
  const items = timeline.ids.map((id, place) => ({ ...toRow(timeline, place), ...byId.get(id) })).reverse();
  return { items, ...(end > ids.length && { next: ids[0] }) };
}

async function readIds(client: Client, session: string, signal: AbortSignal): Promise<readonly string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const query = withoutUndefined({ cursor });
    const page = await client.request('GET /v1/sessions/{session}/timeline', { params: { session }, query, signal });
    ids.push(...page.ids);
    cursor = page.next;
  } while (cursor !== undefined);
  return ids;
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
