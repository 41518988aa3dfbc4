import { withoutUndefined } from '../../core/defined.ts';
import type { Client } from '../../server/client/client.ts';
import type { ViewedMemory } from '../../view/record-output.ts';

type Selection = Parameters<ViewedMemory['list']>[0];

/** A server gives no more at once. */
const MAX_ITEMS = 1_000;

/** The memory of a server, to look at. */
export function viewRemoteMemory(client: Client): ViewedMemory {
  const find = async (selection: Selection, more: { readonly text?: string; readonly limit: number }) => {
    const { userId: user, agentId: agent, asOf, showExpired: expired, kinds } = selection;
    const at = asOf === undefined ? undefined : String(asOf);
    const query = withoutUndefined({ user, agent, at, expired, kinds: kinds && [...kinds], ...more });
    return (await client.request('GET /v1/memory', { query })).items;
  };
  return {
    list: async (selection) => (await find(selection, { limit: MAX_ITEMS })).reverse(),
    search: (text, { topK = MAX_ITEMS, ...selection }) => find(selection, { text, limit: Math.min(topK, MAX_ITEMS) }),
    why: (id, { asOf }) => {
      const query = withoutUndefined({ at: asOf === undefined ? undefined : String(asOf) });
      return client.request('GET /v1/memory/{memory}', { params: { memory: id }, query });
    },
    close: async () => undefined,
  };
}
