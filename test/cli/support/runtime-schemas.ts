import { z } from 'zod';

const id = z.string().regex(/^chk_[0-9a-z]{22}$/);
const time = z.iso.datetime();
const count = z.int().min(0);
const json = z.unknown();

const question = z.strictObject({
  id: z.string(),
  agent: z.string(),
  text: z.string(),
  choices: z.array(z.string()),
  input: z.unknown(),
});

const teamRun = z.strictObject({
  kind: z.enum(['chat', 'fleet']),
  sessionId: z.string(),
  branch: z.string(),
  /** Null if nothing could be stored. */
  checkpointId: id.nullable(),
  status: z.enum(['ended', 'waiting', 'failed', 'stopped']),
  /** Why it ended: `signal`, `max_rounds`, `satisfied`, ... */
  reason: z.string().nullable(),
  signal: z.string().nullable(),
  /** How it stopped, in words. */
  detail: z.string(),
  /** Of a fleet that ended. */
  answer: z.string().nullable(),
  /** What a person is asked. */
  question: question.nullable(),
  /** How many messages this run appended; null for a fleet, which may forget. */
  newMessages: count.nullable(),
  messages: z.array(z.strictObject({ name: z.string(), content: z.string() })),
  tokens: z.number(),
  costUsd: z.number(),
  /** The folder of the session's files. */
  folder: z.string().nullable(),
});

const workflowRun = z.strictObject({
  kind: z.literal('workflow'),
  sessionId: z.string(),
  branch: z.string(),
  checkpointId: id.nullable(),
  status: z.enum(['completed', 'failed', 'waiting']),
  output: json,
  failure: z.strictObject({ path: z.string(), message: z.string() }).nullable(),
  questions: z.array(question.omit({ agent: true, input: true })),
  timers: z.array(z.strictObject({ path: z.string(), at: time })),
  steps: z.array(z.strictObject({ path: z.string(), status: z.enum(['done', 'skipped', 'failed']) })),
});

const problem = z.strictObject({
  path: z.string(),
  message: z.string(),
  suggestion: z.string().optional(),
  line: count.optional(),
  column: count.optional(),
});

const workflow = z.strictObject({ file: z.string(), isValid: z.boolean(), problems: z.array(problem) });

const driftStatus = z.enum(['healthy', 'suspect', 'drifting']);
const drift = z.strictObject({
  sessionId: z.string(),
  branch: z.string(),
  status: driftStatus,
  kinds: z.array(z.string()),
  agent: z.string().nullable(),
  /** The checkpoint with which it began. */
  onset: id.nullable(),
  summary: z.string(),
  evidence: z.array(
    z.strictObject({
      signal: z.string(),
      kind: z.string(),
      agent: z.string(),
      nats: z.number(),
      reason: z.string(),
    }),
  ),
  /** After each checkpoint that brought messages; a score of 1 is the alarm. */
  points: z.array(
    z.strictObject({
      checkpointId: id,
      sequence: count,
      savedAt: time,
      status: driftStatus,
      scores: z.record(z.string(), z.number()),
      repetition: z.number(),
      news: z.number().optional(),
      inputTokens: count.optional(),
    }),
  ),
});

const memoryRecord = z.strictObject({
  id: z.string(),
  memory: z.string(),
  kind: z.string(),
  subject: z.string(),
  trust: z.string(),
  reinforcements: count,
  observedAt: time,
  slot: z.string().optional(),
  userId: z.string().optional(),
  agentId: z.string().optional(),
  supersededBy: z.string().optional(),
  /** Of a search. */
  score: z.number().optional(),
});

const memorySource = z.strictObject({
  operation: z.string(),
  at: time,
  /** What is left of the checkpoint that taught it. */
  status: z.string(),
  isVisible: z.boolean(),
  /** The turns it was taken from. */
  turns: z.array(z.string()),
  sessionId: z.string().optional(),
  branch: z.string().optional(),
  checkpointId: z.string().optional(),
});

const memory = z.union([
  z.array(memoryRecord),
  z.strictObject({
    id: z.string(),
    /** Null if it is not known from there. */
    memory: memoryRecord.nullable(),
    supersededBy: z.string().optional(),
    sources: z.array(memorySource),
  }),
  z.strictObject({
    isDryRun: z.boolean(),
    memories: z.array(z.string()),
    turns: z.array(z.string()),
    /** Whose states may still hold the words. */
    checkpoints: z.array(z.string()),
    sessions: z.array(z.string()),
  }),
]);

const used = z.strictObject({
  modelCalls: count,
  toolCalls: count,
  codeRuns: count,
  inputTokens: count,
  outputTokens: count,
  costUsd: z.number(),
});

const divergence = z.strictObject({
  index: count,
  speaker: z.string().optional(),
  otherSpeaker: z.string().optional(),
});

const trialArm = z.strictObject({
  runs: z.array(
    z.strictObject({
      arm: z.enum(['edited', 'control']),
      run: count,
      branch: z.string(),
      checkpointId: id.optional(),
      status: z.enum(['ended', 'waiting', 'failed', 'stopped']),
      end: z.looseObject({ reason: z.string() }).nullable(),
      outcome: z.enum(['success', 'failure', 'error']),
      score: z.number().optional(),
      note: z.string().optional(),
      error: z.string().optional(),
      newMessages: count,
      used,
      divergence: divergence.optional(),
      isReused: z.boolean(),
    }),
  ),
  successes: count,
  failures: count,
  errors: count,
  successRate: z.number().optional(),
  meanScore: z.number().optional(),
  used,
});

const trial = z.strictObject({
  name: z.string(),
  sessionId: z.string(),
  intervention: z.looseObject({ kind: z.string(), originId: z.string(), baseId: z.string() }),
  reason: z.string().optional(),
  author: z.string().optional(),
  rounds: count,
  repeats: count,
  isComplete: z.boolean(),
  edited: trialArm.optional(),
  control: trialArm,
  chance: z
    .strictObject({
      table: z.array(z.array(count)),
      pValue: z.number(),
      smallestPValue: z.number(),
      alpha: z.number(),
    })
    .optional(),
  conclusion: z.enum(['helps', 'harms', 'could_be_chance', 'too_few_runs', 'not_compared']),
});

const run = z.union([teamRun, workflowRun]);

/** What the commands that run agents, and look at what they did, print with `--json`. */
export const RUNTIME_SCHEMAS = { run, resume: run, continue: run, trial, drift, memory, workflow } as const;
