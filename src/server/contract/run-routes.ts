import { z } from 'zod';
import { count, isoTime, json, timeMs } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, countIn, flag, idCursor, name, page, sessionId } from './shapes.ts';

const MODES = ['live', 'recorded', 'frozen'] as const;

const request = z.strictObject({
  sessionId: z.string(),
  branch: z.string(),
  id: z.string(),
  from: z.enum(['group_chat', 'fleet', 'workflow_run']),
  kind: z.string().describe('plan_review, operation, reply, approval, ...'),
  agent: z.string().optional(),
  path: z.string().optional().describe('Of a workflow: the step that asks'),
  message: z.string(),
  options: z.array(z.string()).describe('What can be answered; empty: any text'),
  needs: z
    .record(z.string(), z.string())
    .optional()
    .describe('Options that need a text as their `value`, and what it says'),
  askedAtMs: timeMs.optional(),
  deadlineMs: timeMs.optional(),
  onTimeout: z.string().optional(),
  more: json.optional().describe('What else the request says: the plan, the operation and its input'),
});

const answer = z.strictObject({
  answer: z.string(),
  by: z.string(),
  atMs: timeMs,
  value: json.optional(),
});

const run = z.strictObject({
  sessionId: z.string(),
  branch: z.string(),
  kind: z.enum(['workflow_run', 'fleet', 'group_chat']),
  title: z.string().describe('The workflow, or what the team is to do'),
  status: z.string(),
  headId: z.string(),
  sequence: count,
  savedAt: isoTime,
  requests: count.describe('What people are asked and have not answered'),
  answered: count.describe('Answers that the run has not taken yet: continue it'),
});

const teamRun = z.strictObject({
  status: z.enum(['running', 'ended', 'waiting', 'failed', 'stopped']),
  at: z.string().optional().describe('Where it began, if that was not the head'),
  rounds: count.optional(),
  mode: z.enum(MODES).optional(),
  startedAtMs: timeMs,
  endedAtMs: timeMs.optional(),
  branch: z.string().optional(),
  problem: z.string().optional().describe('What it failed with'),
});

const stepError = z.looseObject({ name: z.string(), message: z.string() });

const step = z.strictObject({
  path: z.string(),
  status: z.enum(['done', 'skipped', 'failed', 'waiting', 'answered', 'trying', 'timer']),
  attempts: count.optional(),
  endedAtMs: timeMs.optional(),
  dueAtMs: timeMs.optional().describe('Of a timer'),
  output: json.optional(),
  error: stepError.optional(),
  isFinal: z.boolean().optional(),
});

const ledgerEntry = z.looseObject({ answer: json.optional(), reason: z.string().optional() });

const round = z.strictObject({
  checkpointId: z.string(),
  sequence: count,
  savedAt: isoTime,
  phase: z.string(),
  round: count,
  stalls: count,
  resets: count,
  speaker: z.string().nullable(),
  taskLedger: z.strictObject({ facts: z.string(), plan: z.string() }).nullable(),
  progressLedger: z.record(z.string(), ledgerEntry).nullable(),
});

/** Routes about runs: what people are asked, workflows with their steps, fleets with their ledgers; and what happens now. */
export const RUN_ROUTES = {
  'GET /v1/requests': {
    summary: 'Open requests to people',
    query: { session: sessionId.optional().describe('Default: all sessions') },
    reply: z.strictObject({ items: z.array(request) }),
  },
  'POST /v1/sessions/{session}/requests/{request}': {
    summary: 'Answers a request. The first answer counts: a second one is a conflict that says who answered first',
    params: { session: sessionId, request: z.string().min(1) },
    body: z.strictObject({
      answer: z.string().max(100_000),
      by: z.string().min(1).max(512),
      branch: name.optional().describe('Default: the current one'),
      value: json.optional().describe('What belongs to the answer, such as a changed plan'),
    }),
    reply: answer,
    errors: ['NOT_FOUND', 'CONFLICT', 'CORRUPT'],
  },
  'GET /v1/runs': {
    summary: 'Runs of workflows and teams, most recently saved first',
    query: {
      kind: z.enum(['workflow_run', 'fleet', 'group_chat']).optional(),
      limit: countIn(1, 500).optional().describe('Maximum number; default 50'),
      cursor: idCursor,
    },
    reply: page(run),
    errors: ['CORRUPT'],
  },
  'GET /v1/sessions/{session}/run': {
    summary: 'One run at its head: the steps of a workflow, or the ledgers of a team, round by round',
    params: { session: sessionId },
    query: {
      branch: name.optional().describe('Default: the current one'),
      at: checkpointId.optional().describe('As it was at this checkpoint'),
      rounds: flag.optional().describe('For a fleet: earlier rounds, too; default true'),
    },
    reply: run.extend({
      input: json.optional(),
      output: json.optional(),
      steps: z.array(step),
      rounds: z.array(round),
      asks: z.array(request.extend({ answer: answer.optional() })),
      end: json.optional(),
      active: teamRun.optional().describe('What this server runs of it, or ran last'),
    }),
    caching: 'tagged',
    errors: ['NOT_FOUND', 'CORRUPT', 'UNSUPPORTED'],
  },
  'POST /v1/sessions/{session}/run': {
    summary: "Lets the server's team continue, without waiting for its end; needs a server with a team",
    params: { session: sessionId },
    body: z.strictObject({
      at: checkpointId
        .optional()
        .describe('From there, as a new branch; default: on the current branch, where it was left'),
      rounds: count.min(1).max(1_000).optional().describe('How many replies; default: those that are left'),
      mode: z
        .enum(MODES)
        .optional()
        .describe('Of a new branch: live (default), recorded (as long as it fits) or frozen (only that)'),
      prompt: z.string().min(1).max(100_000).optional().describe('Say this first'),
      branch: name.optional().describe('Of a new branch; default: a name is chosen'),
      reason: z.string().max(10_000).optional(),
    }),
    reply: teamRun,
    errors: ['NOT_FOUND', 'CONFLICT', 'CORRUPT', 'UNSUPPORTED'],
  },
  'DELETE /v1/sessions/{session}/run': {
    summary: 'Pauses the run of a session, and waits until it has paused. Finished work stays',
    params: { session: sessionId },
    reply: teamRun,
    errors: ['NOT_FOUND'],
  },
  'GET /v1/events': {
    summary: 'What is saved from now on, by any process, as server-sent events: ids only. Resumes from Last-Event-ID',
    query: {
      session: sessionId.optional(),
      after: z.string().max(200).optional().describe('Like Last-Event-ID, for clients that cannot send headers'),
    },
    reply: 'events',
    errors: [],
  },
} as const satisfies RouteTable;
