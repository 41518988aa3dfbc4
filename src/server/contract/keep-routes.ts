import { z } from 'zod';
import { checkpoint, count, isoTime, retention } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, sessionId } from './shapes.ts';

const judged = z.strictObject({
  policy: retention.optional().describe('In place of the general rules; those of types still hold'),
  session: sessionId.optional().describe('Only in this session'),
});

const verdicts = {
  kept: count,
  dropped: count,
  reasons: z.array(z.strictObject({ isKept: z.boolean(), reason: z.string(), checkpoints: count })),
};

const growth = z.array(
  z.strictObject({
    until: isoTime,
    checkpoints: count,
    logicalBytes: count,
    uniqueBytes: count.optional(),
    pathBytes: z.array(count).optional().describe('Of the unique bytes, those of the first paths, in their order'),
  }),
);

/** Routes about what is stored: figures, retention, verify, export and import. */
export const KEEP_ROUTES = {
  'GET /v1/storage': {
    summary: 'How much is stored, and how it grew',
    query: { session: sessionId.optional() },
    reply: z.strictObject({
      kind: z.string(),
      sessions: count,
      checkpoints: count,
      tombstones: count,
      chunks: count,
      logicalBytes: count.describe('All states in full'),
      storedBytes: count.describe('On the disk, or in memory'),
      growth,
    }),
    caching: 'tagged',
    errors: [],
  },
  'GET /v1/storage/growth': {
    summary: 'Which paths of states grew most, and how much each session shares. Reads every chunk once',
    query: {
      session: sessionId.optional(),
      from: z.iso.datetime().optional().describe('Growth and paths since this time; default: since the first save'),
    },
    reply: z.strictObject({
      checkpoints: count,
      logicalBytes: count,
      uniqueBytes: count.describe('Each chunk once, before compression'),
      growth,
      paths: z.array(z.strictObject({ path: z.string(), uniqueBytes: count })).describe('Those that grew most'),
      sessions: z.array(
        z.strictObject({
          id: z.string(),
          checkpoints: count,
          logicalBytes: count,
          uniqueBytes: count.describe('What it brought that no session before it had'),
        }),
      ),
    }),
    caching: 'tagged',
  },
  'POST /v1/retention/preview': {
    summary: 'What retention would delete and why, and what that would free; deletes nothing',
    body: judged,
    reply: z.strictObject({
      ...verdicts,
      freedBytes: count.describe('Before compression'),
      buckets: z
        .array(z.strictObject({ until: isoTime, keptBytes: count, freedBytes: count }))
        .describe('What would stay and what would go, by when it was saved'),
      sessions: z
        .array(z.strictObject({ id: z.string(), checkpoints: count, freedBytes: count }))
        .describe('Those that would lose most'),
      going: z
        .array(
          checkpoint
            .pick({ id: true, sessionId: true, branch: true, sequence: true, savedAt: true })
            .extend({ reason: z.string() }),
        )
        .describe('What would go, oldest first; at most 1,000'),
    }),
    isReading: true,
  },
  'POST /v1/prune': {
    summary: 'Deletes checkpoints by the retention policy',
    body: judged.extend({
      expect: count.describe('How many the preview said would go; if it is another number now, nothing is deleted'),
      collect: z.boolean().optional().describe('Give the space back, too'),
    }),
    reply: z.strictObject({
      ...verdicts,
      deleted: z.array(z.string()),
      freedBytes: count.optional(),
    }),
    errors: ['NOT_FOUND', 'CONFLICT', 'CORRUPT'],
  },
  'POST /v1/verify': {
    summary: 'Checks everything stored, and names what is damaged',
    body: z.strictObject({ readData: z.boolean().optional().describe('Also every chunk; default true') }),
    reply: z.strictObject({
      status: z.enum(['clean', 'forgotten', 'damaged']),
      checkpoints: count,
      tombstones: count,
      chunks: count,
      effects: count,
      sessions: count,
      findings: z.array(z.strictObject({ subject: z.string(), problem: z.string() })),
      damagedCheckpoints: z.array(z.string()),
      forgotten: z
        .array(z.strictObject({ sessionId: z.string(), checkpoints: count }))
        .describe('Sessions of which something cannot be read because its key was removed, which is no damage'),
      verifiedAt: isoTime,
    }),
    isReading: true,
    errors: [],
  },
  'GET /v1/sessions/{session}/export': {
    summary: 'A session as one self-contained file of lines',
    params: { session: sessionId },
    reply: 'lines',
  },
  'POST /v1/import': {
    summary: 'Reads what an export wrote, checking all of it',
    takes: 'lines',
    reply: z.strictObject({ sessionId: z.string(), checkpoints: count, chunks: count, effects: count }),
    errors: ['CONFLICT', 'CORRUPT', 'UNSUPPORTED'],
  },
  'DELETE /v1/sessions/{session}': {
    summary: 'Deletes a session and everything in it',
    params: { session: sessionId },
    reply: z.strictObject({ isDeleted: z.boolean() }),
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'DELETE /v1/checkpoints/{checkpoint}': {
    summary: 'Deletes one checkpoint. A conflict if a branch, tag or pin protects it',
    params: { checkpoint: checkpointId },
    reply: z.strictObject({ isDeleted: z.boolean() }),
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteTable;
