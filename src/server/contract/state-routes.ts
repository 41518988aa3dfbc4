import { z } from 'zod';
import { call, checkpoint, count, json, label, node, result, timeMs, totals, usage } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, countIn, flag, listIn, name, page, placeCursor, sessionId } from './shapes.ts';

const message = z.strictObject({
  index: count,
  speaker: z.string(),
  text: z.string(),
  calls: z.array(call),
  results: z.array(result),
  isCut: z.boolean().describe('Something in it was cut; `raw` of the state has it whole'),
  path: z.string(),
  checkpointId: z.string().optional().describe('The checkpoint that brought it, where checkpoints say so'),
  sequence: count.optional(),
});

const recordedCall = call.extend({
  durationMs: z.number().optional().describe('Where the call was recorded'),
  isReplayed: z.boolean().optional().describe('Its result came from a recording; absent where no call was recorded'),
  sameAs: count.optional().describe('The first message with the same call and the same result'),
  alike: count.optional().describe('How many messages have them'),
});

/** What models used, where it is recorded. */
const spent = {
  model: z.string().optional(),
  inputTokens: count.optional(),
  outputTokens: count.optional(),
  costUsd: z.number().optional(),
};

const recordedMessage = message.extend({
  calls: z.array(recordedCall),
  results: z.array(result).describe('Also of its calls that a later message answers'),
  answers: count.optional().describe('The message whose calls it answers, if it does nothing else'),
  ...spent,
});

const effect = z.strictObject({
  branch: z.string(),
  ordinal: count,
  name: z.string(),
  status: z.enum(['started', 'done', 'failed', 'dropped']),
  attempt: count,
  idempotencyKey: z.string(),
  work: z.string().optional(),
  afterId: z.string().optional().describe('The checkpoint that was the head when it began'),
  startedAtMs: timeMs,
  durationMs: z.number().optional(),
  replayedFrom: z.strictObject({ branch: z.string(), ordinal: count }).optional(),
  resultBytes: count,
  ...spent,
});

/** Routes that look at checkpoints: their states, messages and recorded calls. */
export const STATE_ROUTES = {
  'GET /v1/labels': {
    summary: 'What each checkpoint did, in a few words: who spoke, what was called. For the rows on the screen',
    query: { ids: listIn(200) },
    reply: z.strictObject({
      items: z.array(label),
    }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}': {
    summary: 'A checkpoint without its state',
    params: { checkpoint: checkpointId },
    reply: checkpoint.extend({
      digest: z.string(),
      stateDigest: z.string(),
      schemaVersion: count.optional(),
      contextSummary: z.string().optional(),
      fingerprint: json.optional(),
      collectedFields: json.optional(),
      requiredFields: json.optional(),
      children: z.array(z.string()),
      isPinned: z.boolean(),
      usage: usage.describe('Of the state: what was used up to here'),
      step: totals.optional().describe('What was used since the parent'),
      newBytes: count.optional().describe('About how many bytes the parent does not have, before compression'),
    }),
    caching: 'tagged',
  },
  'GET /v1/checkpoints/{checkpoint}/state': {
    summary: 'A value of a state: its own content if it is small, and its parts',
    params: { checkpoint: checkpointId },
    query: {
      path: z.string().optional().describe('Such as $.messages[3] or /messages/3; default: the whole state'),
      limit: countIn(1, 10_000).optional().describe('Maximum number of parts; default 1,000'),
      cursor: placeCursor,
    },
    reply: node.extend({ parts: z.array(node), next: z.string().optional() }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}/value': {
    summary: 'A value of a state, whole, however large it is',
    params: { checkpoint: checkpointId },
    query: {
      path: z.string().optional(),
      form: z
        .enum(['plain', 'tagged'])
        .optional()
        .describe('plain (default): for people, dates and the like as text. tagged: can be sent back as an edit'),
    },
    reply: z.strictObject({ path: z.string(), value: json }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}/messages': {
    summary: 'The messages of a state, oldest first; from the end with `last`',
    params: { checkpoint: checkpointId },
    query: {
      limit: countIn(1, 1_000).optional().describe('Maximum number; default 200'),
      cursor: placeCursor,
      last: flag.optional().describe('Start from the end; `next` then goes back'),
    },
    reply: z.strictObject({
      total: count,
      transcript: z.string().optional().describe('The path of the list they are in'),
      items: z.array(recordedMessage),
      next: z.string().optional(),
    }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}/context': {
    summary: 'What the model of an agent gets from a checkpoint on, and how that differs from another checkpoint',
    params: { checkpoint: checkpointId },
    query: {
      agent: z.string().optional().describe('Default: the one that spoke'),
      before: checkpointId.optional().describe('Default: the parent'),
      limit: countIn(1, 1_000).optional().describe('Maximum number of messages, counted from the end; default 200'),
    },
    reply: z.strictObject({
      agents: z.array(z.string()).describe('Those that have a conversation of their own'),
      agent: z.string().optional(),
      model: z.string().optional(),
      system: z.string().optional(),
      tools: z.array(z.string()),
      conversation: count.describe('How many messages the conversation has; the agent may be given fewer'),
      total: count,
      items: z.array(message.extend({ isNew: z.boolean() })),
      before: z.string().optional(),
      droppedTotal: count,
      dropped: z.array(message).describe('What was given before, and is not any more; the last 50'),
      isReordered: z.boolean(),
      isSystemChanged: z.boolean(),
    }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}/effects': {
    summary: 'Recorded calls of a checkpoint: those since its parent, in order',
    params: { checkpoint: checkpointId },
    reply: z.strictObject({ items: z.array(effect) }),
    caching: 'tagged',
  },
  'GET /v1/sessions/{session}/effects': {
    summary: 'Recorded calls of a branch, in the order they started',
    params: { session: sessionId },
    query: {
      branch: name.optional().describe('Default: the current one'),
      after: checkpointId.optional().describe('Only calls that started at this checkpoint or after it'),
      limit: countIn(1, 10_000).optional().describe('Maximum number; default 1,000'),
      cursor: placeCursor,
    },
    reply: page(effect),
    caching: 'tagged',
  },
  'GET /v1/sessions/{session}/effects/{branch}/{ordinal}': {
    summary: 'The recorded result of one call, or its error',
    params: { session: sessionId, branch: name, ordinal: countIn(0, Number.MAX_SAFE_INTEGER) },
    reply: effect.extend({ result: json.optional() }),
    caching: 'tagged',
  },
} as const satisfies RouteTable;
