import { z } from 'zod';

/** Whole numbers from zero on. */
export const count = z.int().nonnegative();
/** Milliseconds since 1970. */
export const timeMs = z.number();
/** A time as ISO 8601 writes it. */
export const isoTime = z.string();
/** The id of a checkpoint; where one is asked for, its beginning will do. */
export const checkpointId = z.string().min(1).describe('A checkpoint id, or a unique prefix of one');
/** A session's name. */
export const sessionId = z.string().min(1).max(512);
/** The name of a branch or a tag. */
export const name = z.string().min(1).max(512);
/** Any JSON. */
export const json = z.unknown();

/** A flag in a query. */
export const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
/** A count in a query, within bounds. */
export const countIn = (min: number, max: number) => z.coerce.number().int().min(min).max(max);
/** Names in a query, with commas in between. */
export const listIn = (max: number) =>
  z.string().transform((text, context) => {
    const items = text.split(',').filter((item) => item !== '');
    if (items.length <= max) return items;
    context.addIssue({ code: 'custom', message: `must name at most ${max}; found ${items.length}` });
    return z.NEVER;
  });

const cursorLike = (pattern: RegExp) =>
  z
    .string()
    .regex(pattern, 'it must be the "next" of the page before')
    .optional()
    .describe('The `next` of the page before');
/** Where a list goes on: after a checkpoint, or at a place in it. */
export const idCursor = cursorLike(/^chk_\w{22}$/);
export const placeCursor = cursorLike(/^\d{1,15}$/);

/** One page of a list. */
export const page = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({ items: z.array(item), next: z.string().optional().describe('Absent on the last page') });

/** A checkpoint without its state. */
export const checkpoint = z.strictObject({
  id: z.string(),
  sessionId: z.string(),
  branch: z.string(),
  sequence: count,
  savedAt: isoTime,
  type: z.string(),
  parentId: z.string().optional(),
  trigger: z.string().optional(),
  status: z.string().optional(),
  name: z.string().optional(),
  note: z.string().optional(),
  author: z.string().optional(),
  reason: z.string().optional(),
  agentId: z.string().optional(),
  agentType: z.string().optional(),
  userId: z.string().optional(),
  metadata: z.record(z.string(), json).optional(),
  stateBytes: count,
  heads: z.array(z.string()).optional().describe('Branches whose head it is'),
  tags: z.array(z.string()).optional(),
});

/** A branch and where it is. */
export const branch = z.strictObject({
  name: z.string(),
  headId: z.string(),
  isAnswer: z.boolean().describe('It only holds the answer to a request'),
});

/** How much of models and tools was used. */
export const totals = z.strictObject({
  modelCalls: count,
  toolCalls: count,
  codeRuns: count,
  inputTokens: count,
  outputTokens: count,
  costUsd: z.number(),
});

/** What kind of thing a session records. */
export const kind = z.enum(['group_chat', 'fleet', 'workflow_run', 'loop', 'thread', 'messages', 'state']);

/** What the state of a session used, and who is in it. */
export const usage = z.strictObject({
  kind,
  models: z.array(z.string()),
  agents: z.array(z.string()),
  messages: count.optional(),
  totals: totals.optional().describe('Absent where nothing of that kind is recorded'),
});
