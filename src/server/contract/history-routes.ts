import { z } from 'zod';
import { checkpoint, count, drift, isoTime, json, totals } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, countIn, flag, name, placeCursor, sessionId } from './shapes.ts';

/** One line of two runs beside each other. */
const comparedMessage = z.strictObject({
  index: count,
  speaker: z.string(),
  text: z.string(),
  tools: z.array(z.string()),
  checkpointId: z.string().optional(),
  sequence: count.optional(),
});
const comparedRun = z.strictObject({
  branch: z.string(),
  headId: z.string(),
  sequence: count,
  status: z.string().optional(),
  messages: count.describe('After the fork and its edit, like totals'),
  checkpoints: count.describe('Since the fork point'),
  startedAt: isoTime.optional(),
  endedAt: isoTime,
  end: z.string().optional(),
  totals: totals.optional(),
});

const change = { path: z.string(), isCut: z.boolean().optional() };
const counts = z.strictObject({ added: count, removed: count, modified: count, moved: count });

const match = z.strictObject({
  sessionId: z.string(),
  branch: z.string(),
  checkpointId: z.string(),
  sequence: count,
  savedAt: isoTime,
  path: z.string(),
  text: z.string().describe('Around the match; long texts are cut'),
});

/** Routes that look along a history: differences, search, blame, drift. */
export const HISTORY_ROUTES = {
  'GET /v1/diff': {
    summary: 'How one checkpoint differs from another: any two',
    query: {
      before: checkpointId.optional().describe('Default: the parent of `after`'),
      after: checkpointId,
      path: z.string().optional().describe('Only what changed at or below it'),
      patch: flag.optional().describe('Also the JSON Patch (RFC 6902) that turns one into the other'),
      whole: flag.optional().describe('Do not cut large values'),
    },
    reply: z.strictObject({
      before: checkpoint,
      after: checkpoint,
      hasChanges: z.boolean(),
      counts: z.strictObject({ total: counts, fields: z.record(z.string(), counts) }),
      added: z.array(z.strictObject({ ...change, newValue: json })),
      removed: z.array(z.strictObject({ ...change, oldValue: json })),
      modified: z.array(z.strictObject({ ...change, oldValue: json, newValue: json })),
      moved: z.array(z.strictObject({ from: z.string(), path: z.string() })),
      folded: z.array(z.string()).describe('Paths of changes that only the program needs: copies, counters'),
      patch: z.array(json).optional(),
    }),
    caching: 'immutable',
  },
  'GET /v1/text-diff': {
    summary: 'How a string of one checkpoint differs from one of another, word by word',
    query: {
      before: checkpointId,
      after: checkpointId,
      path: z.string(),
      beforePath: z.string().optional().describe('Default: the same path'),
    },
    reply: z.strictObject({
      changes: z.array(z.strictObject({ op: z.enum(['equal', 'remove', 'add']), text: z.string() })),
    }),
    caching: 'immutable',
  },
  'GET /v1/sessions/{session}/compare': {
    summary: 'Two branches side by side, aligned from the fork point; one inserted message does not shift the rest',
    params: { session: sessionId },
    query: {
      a: name.describe('A branch, or a checkpoint id'),
      b: name,
      limit: countIn(1, 10_000).optional().describe('Maximum number of steps; default 2,000'),
      cursor: placeCursor,
    },
    reply: z.strictObject({
      a: comparedRun,
      b: comparedRun,
      forkPoint: checkpoint.optional().describe('The newest checkpoint that both descend from'),
      common: count.describe('Messages before the fork point that both have; they are not listed'),
      counts: z.strictObject({ same: count, changed: count, only_a: count, only_b: count }),
      firstDivergence: count.optional().describe('The place of the first step that differs'),
      steps: z.array(
        z.strictObject({
          kind: z.enum(['same', 'changed', 'only_a', 'only_b']),
          a: comparedMessage.optional(),
          b: comparedMessage.optional(),
        }),
      ),
      next: z.string().optional(),
      agents: z.array(z.strictObject({ name: z.string(), a: count, b: count })).describe('Messages by speaker'),
      tools: z
        .array(z.strictObject({ name: z.string(), agent: z.string(), a: count, b: count }))
        .describe('Calls by tool and speaker'),
    }),
    caching: 'tagged',
  },
  'GET /v1/search': {
    summary: 'Where a text first appeared in a history, or where one state contains it',
    query: {
      text: z.string().min(1).max(1_000),
      session: sessionId.optional().describe('Its histories; default: the heads of all branches of all sessions'),
      branch: name.optional().describe('Default: all of them, the current one first; what several hold is listed once'),
      at: checkpointId.optional().describe('Only the state of this checkpoint'),
      case: flag.optional().describe('Match case'),
      regex: flag
        .optional()
        .describe('`text` is a regular expression; lookarounds and references to groups are refused'),
      limit: countIn(1, 1_000).optional().describe('Maximum number; default 100'),
    },
    reply: z.strictObject({ items: z.array(match), isComplete: z.boolean().describe('Nothing was left out') }),
  },
  'GET /v1/checkpoints/{checkpoint}/blame': {
    summary: 'Which checkpoint last set a value; for a list or an object, each of its parts',
    params: { checkpoint: checkpointId },
    query: { path: z.string(), whole: flag.optional().describe('The value as a whole, even if it has parts') },
    reply: z.strictObject({
      items: z.array(z.strictObject({ path: z.string(), value: json, checkpoint })),
    }),
    caching: 'immutable',
  },
  'GET /v1/checkpoints/{checkpoint}/drift': {
    summary: 'Signs of loops, stalls and lost goals in the history up to a checkpoint',
    params: { checkpoint: checkpointId },
    query: { goal: z.string().max(10_000).optional() },
    reply: drift.extend({
      firstAlarm: z.string().optional().describe('The first checkpoint whose status is drifting'),
    }),
    caching: 'immutable',
  },
} as const satisfies RouteTable;
