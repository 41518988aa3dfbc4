import { z } from 'zod';
import { MEMORY_KINDS } from '../../memory/storage/memory-record.ts';
import { memory, memoryReasons } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, countIn, flag, listIn } from './shapes.ts';

/** Routes about long-term memory. */
export const MEMORY_ROUTES = {
  'GET /v1/memory': {
    summary: 'Long-term memory: all memories, or those that answer a question, best first',
    query: {
      text: z.string().max(2_000).optional().describe('The question; without it everything is listed, newest first'),
      user: z.string().optional(),
      agent: z.string().optional(),
      at: checkpointId.optional().describe('As it was known at this checkpoint'),
      limit: countIn(1, 1_000).optional().describe('Maximum number; default 50'),
      expired: flag.optional().describe('Include expired and superseded memories'),
      kinds: listIn(MEMORY_KINDS.length).optional().describe('Only these, comma-separated: fact, preference, ...'),
    },
    reply: z.strictObject({
      items: z.array(memory),
    }),
    errors: ['NOT_FOUND', 'UNSUPPORTED'],
  },
  'POST /v1/memory': {
    summary: 'Adds something to long-term memory',
    body: z.strictObject({
      text: z.string().min(1).max(10_000).describe('What to remember'),
      user: z.string().optional().describe('Whom it is about'),
      agent: z.string().optional(),
    }),
    reply: z.strictObject({
      items: z.array(z.strictObject({ id: z.string(), memory: z.string(), kind: z.string(), event: z.string() })),
    }),
    errors: ['UNSUPPORTED'],
  },
  'GET /v1/memory/{memory}': {
    summary: 'Why a memory exists: what taught it, and how it changed',
    params: { memory: z.string().min(1) },
    query: { at: checkpointId.optional() },
    reply: memoryReasons,
    errors: ['NOT_FOUND', 'UNSUPPORTED'],
  },
} as const satisfies RouteTable;
