import { withoutUndefined } from '../../core/defined.ts';
import { NotFoundError, UnsupportedError } from '../../core/errors.ts';
import type { MemoryHit } from '../../memory/find/finding.ts';
import type { Memory } from '../../memory/memory.ts';
import { type MemoryRecord, parseKind } from '../../memory/storage/memory-record.ts';
import type { Handlers } from './call.ts';

const DEFAULT_COUNT = 50;

/** Answers what is asked about long-term memory. */
export const MEMORY_HANDLERS = {
  'GET /v1/memory': async ({ memory, query }) => {
    const { text, user: userId, agent: agentId, at: asOf, limit = DEFAULT_COUNT, expired: showExpired } = query;
    const kinds = query.kinds?.map(parseKind);
    const selection = withoutUndefined({ userId, agentId, asOf, showExpired, kinds });
    if (text === undefined) {
      const found = await openMemory(memory).getAll(selection);
      return { items: found.slice(-limit).reverse().map(toItem) };
    }
    const { results } = await openMemory(memory).search(text, { ...selection, topK: limit });
    return { items: results.map(toItem) };
  },
  'POST /v1/memory': async ({ memory, body: { text, user: userId, agent: agentId } }) => {
    const { results } = await openMemory(memory).add(text, {
      ...withoutUndefined({ userId, agentId }),
      trust: 'agent',
    });
    return { items: [...results] };
  },
  'GET /v1/memory/{memory}': async ({ memory, params, query }) => {
    const asOf = withoutUndefined({ asOf: query.at });
    const found = await openMemory(memory).why(params.memory, asOf);
    if (found.sources.length === 0) throw new NotFoundError(`There is no memory "${params.memory}".`);
    return {
      id: found.id,
      memory: found.memory?.memory ?? null,
      ...withoutUndefined({ record: found.memory && toItem(found.memory), supersededBy: found.supersededBy }),
      sources: found.sources.map(({ operation, at, status, isVisible, turns, sessionId, branch, checkpointId }) => ({
        operation,
        at: at.toISOString(),
        status,
        isVisible,
        turns: turns.map((turn) => turn.memory),
        ...withoutUndefined({ sessionId, branch, checkpointId }),
      })),
    };
  },
} satisfies Partial<Handlers>;

function openMemory(memory: Memory | undefined): Memory {
  if (memory !== undefined) return memory;
  throw new UnsupportedError('This server has no long-term memory. Start it with --memory, or pass { memory }.');
}

function toItem(record: MemoryRecord | MemoryHit) {
  const { id, memory, kind, subject, slot, userId, agentId, trust, reinforcements, observedAt, supersededBy } = record;
  const score = 'score' in record ? record.score : undefined;
  const about = { id, memory, kind, subject, trust, reinforcements, observedAt: observedAt.toISOString() };
  return { ...about, ...withoutUndefined({ slot, userId, agentId, supersededBy, score }) };
}
