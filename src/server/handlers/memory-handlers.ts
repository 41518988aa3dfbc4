import { withoutUndefined } from '../../core/defined.ts';
import { NotFoundError, UnsupportedError } from '../../core/errors.ts';
import type { Memory } from '../../memory/memory.ts';
import { parseKind } from '../../memory/storage/memory-record.ts';
import { viewMemory } from '../../view/record-output.ts';
import type { Handlers } from './call.ts';

const DEFAULT_COUNT = 50;

/** Answers what is asked about long-term memory. */
export const MEMORY_HANDLERS = {
  'GET /v1/memory': async ({ memory, query }) => {
    const { text, user: userId, agent: agentId, at: asOf, limit = DEFAULT_COUNT, expired: showExpired } = query;
    const kinds = query.kinds?.map(parseKind);
    const selection = withoutUndefined({ userId, agentId, asOf, showExpired, kinds });
    const view = viewMemory(openMemory(memory));
    if (text !== undefined) return { items: await view.search(text, { ...selection, topK: limit }) };
    return { items: (await view.list(selection)).slice(-limit).reverse() };
  },
  'POST /v1/memory': async ({ memory, body: { text, user: userId, agent: agentId } }) => {
    const { results } = await openMemory(memory).add(text, {
      ...withoutUndefined({ userId, agentId }),
      trust: 'agent',
    });
    return { items: [...results] };
  },
  'GET /v1/memory/{memory}': async ({ memory, params, query }) => {
    const found = await viewMemory(openMemory(memory)).why(params.memory, withoutUndefined({ asOf: query.at }));
    if (found.sources.length === 0) throw new NotFoundError(`There is no memory "${params.memory}".`);
    return found;
  },
} satisfies Partial<Handlers>;

function openMemory(memory: Memory | undefined): Memory {
  if (memory !== undefined) return memory;
  throw new UnsupportedError('This server has no long-term memory. Start it with --memory, or pass { memory }.');
}
