import { z } from 'zod';
import { checkpoint, count, isoTime, session, timeMs, usage } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { branch, countIn, flag, idCursor, listIn, sessionId } from './shapes.ts';

/** Routes that look at sessions. */
export const SESSION_ROUTES = {
  'GET /v1/server': {
    summary: 'What this server is, and what it can do',
    reply: z.strictObject({
      version: z.string(),
      storage: z.string().describe('Its kind, and its address without passwords if that was given'),
      address: z.string().optional().describe('What `--storage` takes on the machine of the server'),
      kind: z.string(),
      isReadOnly: z.boolean(),
      hasMemory: z.boolean(),
      team: z.string().optional().describe('The team that may be run from here'),
      hasWatch: z.boolean().describe('The storage tells of saves; otherwise the server looks for them'),
      limits: z.strictObject({ maxCheckpoints: count.optional(), maxCheckpointsPerUser: count.optional() }),
      offers: z.array(z.string()).describe('Which methods it has that not every storage has'),
    }),
    errors: [],
  },
  'GET /v1/sessions': {
    summary: 'Sessions, most recently used first',
    query: {
      limit: countIn(1, 1_000).optional().describe('Maximum number; default 100'),
      cursor: idCursor,
      text: z.string().optional().describe('Only sessions with this text in their id, agent or user'),
      status: z.string().optional(),
      subgraphs: flag.optional().describe('List sessions of LangGraph subgraphs separately'),
    },
    reply: z.strictObject({
      items: z.array(session),
      damaged: z.array(z.string()).describe('Sessions that cannot be read; verify says why'),
      next: z.string().optional(),
    }),
    caching: 'tagged',
    errors: [],
  },
  'GET /v1/sessions/{session}': {
    summary: 'A session: its branches, tags and pins. Send its ETag as If-Match with a change',
    params: { session: sessionId },
    reply: z.strictObject({
      id: z.string(),
      currentBranch: z.string(),
      branches: z.array(branch),
      tags: z.array(z.strictObject({ name: z.string(), checkpointId: z.string() })),
      pins: z.array(z.string()),
      notes: z.array(
        z.strictObject({ checkpointId: z.string(), text: z.string(), author: z.string().optional(), savedAt: isoTime }),
      ),
      leases: z
        .array(z.strictObject({ branch: z.string(), holder: z.string() }))
        .describe('Who holds a branch now: it runs'),
      head: checkpoint.optional().describe('The head of the current branch'),
    }),
    caching: 'tagged',
  },
  'GET /v1/sessions/{session}/figures': {
    summary:
      'The size, usage and integrity of a session. Reads and checks each of its chunks once, so ask only for what is on the screen',
    params: { session: sessionId },
    reply: z.strictObject({
      checkpoints: count,
      tombstones: count,
      logicalBytes: count.describe('All states in full'),
      uniqueBytes: count.describe('What is stored, each chunk once, before compression'),
      damaged: count.describe('Records and chunks that are missing or not what their digests say; verify names them'),
      usage,
    }),
    caching: 'tagged',
  },
  'GET /v1/sessions/{session}/timeline': {
    summary: 'All checkpoints of a session, oldest first, as columns: entry n of each column belongs to checkpoint n',
    params: { session: sessionId },
    query: {
      limit: countIn(1, 200_000).optional().describe('Maximum number; default 20,000'),
      cursor: idCursor,
      last: flag.optional().describe('Start from the end; `next` then goes back'),
      ids: listIn(500).optional().describe('Only these, comma-separated: for ids from events'),
    },
    reply: z.strictObject({
      names: z
        .strictObject({
          branches: z.array(z.string()),
          types: z.array(z.string()),
          triggers: z.array(z.string()),
          statuses: z.array(z.string()),
          agents: z.array(z.string()),
        })
        .describe('What the numbers in the columns below stand for; -1 stands for nothing'),
      ids: z.array(z.string()),
      parents: z.array(z.int()).describe('The place of the parent in this reply; -1: none; -2: not in this reply'),
      elsewhere: z.record(z.string(), z.string()).describe('Parents that are not in this reply, by place'),
      startMs: timeMs,
      sinceMs: z.array(z.number()).describe('When it was saved, from startMs on'),
      sequences: z.array(count),
      bytes: z.array(count),
      branches: z.array(z.int()),
      types: z.array(z.int()),
      triggers: z.array(z.int()),
      statuses: z.array(z.int()),
      agents: z.array(z.int()).describe('Who spoke or acted'),
      messages: z.array(z.int()).describe('How many messages there were; -1 where checkpoints do not say'),
      flags: z
        .array(z.int())
        .describe(
          'Sum of: 1 deleted, 2 made or edited by a person, 4 begins a branch, 8 failed, 16 drifting, 32 damaged',
        ),
      words: z.record(z.string(), z.string()).describe('Names, notes and reasons, by place'),
      next: z.string().optional(),
    }),
    caching: 'tagged',
  },
} as const satisfies RouteTable;
