import { withoutUndefined } from '../../core/defined.ts';
import type { MemoryExplanation } from '../../memory/edit/explaining.ts';
import type { MemoryHit } from '../../memory/find/finding.ts';
import type { Memory } from '../../memory/memory.ts';
import type { Client } from '../../server/client/client.ts';
import type { ReplyOf } from '../../server/client/types.ts';

/** What commands that look at memory need of it. */
export type KnownMemory = Pick<Memory, 'getAll' | 'search' | 'why' | 'close'>;

type Item = ReplyOf<'GET /v1/memory'>['items'][number];
type Selection = Parameters<Memory['getAll']>[0];

/** A server gives no more at once. */
const MAX_ITEMS = 1_000;

/** The memory of a server, to look at. */
export function createRemoteMemory(client: Client): KnownMemory {
  const find = async (selection: Selection, more: { readonly text?: string; readonly limit: number }) => {
    const { userId: user, agentId: agent, asOf, showExpired: expired, kinds } = selection;
    const at = asOf === undefined ? undefined : String(asOf);
    const query = withoutUndefined({ user, agent, at, expired, kinds: kinds && [...kinds], ...more });
    return (await client.request('GET /v1/memory', { query })).items.map(toRecord);
  };
  return {
    getAll: async (selection) => (await find(selection, { limit: MAX_ITEMS })).reverse(),
    search: async (text, { topK = MAX_ITEMS, ...selection }) => ({
      results: await find(selection, { text, limit: Math.min(topK, MAX_ITEMS) }),
      vectors: 'none',
    }),
    why: async (id, { asOf } = {}) => {
      const query = withoutUndefined({ at: asOf === undefined ? undefined : String(asOf) });
      return toExplanation(await client.request('GET /v1/memory/{memory}', { params: { memory: id }, query }));
    },
    close: async () => undefined,
  };
}

function toRecord(item: Item): MemoryHit {
  return { ...item, observedAt: new Date(item.observedAt) } as MemoryHit;
}

function toExplanation({ id, record, supersededBy, sources }: ReplyOf<'GET /v1/memory/{memory}'>): MemoryExplanation {
  const taught = sources.map((source) => ({
    ...source,
    at: new Date(source.at),
    turns: source.turns.map((memory) => ({ memory })),
  }));
  const known = { id, memory: record && toRecord(record), sources: taught, ...withoutUndefined({ supersededBy }) };
  return known as unknown as MemoryExplanation;
}
