import { z } from 'zod';

/** Whole numbers from zero on. */
export const count = z.int().nonnegative();
/** Milliseconds since 1970. */
export const timeMs = z.number();
/** A time as ISO 8601 writes it. */
export const isoTime = z.string();
/** Any JSON. */
export const json = z.unknown();

/** The type of a shape. Views are made of what others hold: nobody changes them. */
export type Shape<Schema extends z.ZodType> = DeepReadonly<z.output<Schema>>;

/** The same, all the way down. */
export type DeepReadonly<Value> = Value extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : Value extends object
    ? { readonly [Field in keyof Value]: DeepReadonly<Value[Field]> }
    : Value;

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

/** A session with the head of its current branch. */
export const session = z.strictObject({
  id: z.string(),
  currentBranch: z.string(),
  branches: z.array(z.string()).describe('Without those that hold an answer'),
  headId: z.string().optional().describe('Absent while there is no checkpoint'),
  sequence: count,
  steps: count.optional().describe('Of a session without a checkpoint: how many steps it recorded'),
  savedAt: isoTime.describe('When any of its branches was last saved to'),
  status: z
    .string()
    .optional()
    .describe(
      'Of its head; `answered`: all that it asked is answered, and it has to be continued. Absent for a fork that nobody has run',
    ),
  agentId: z.string().optional(),
  userId: z.string().optional(),
  subgraphs: z.array(z.string()).optional().describe('Sessions of subgraphs of a LangGraph thread'),
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

const limit = z.int().min(1).optional();
const keep = z.int().min(0).optional();

/** What is kept, whatever the type of a checkpoint. */
export const retention = z.strictObject({
  maxCheckpoints: limit,
  maxCheckpointsPerUser: limit,
  maxAgeDays: limit,
  keepLast: keep,
  keepHourly: keep,
  keepDaily: keep,
  keepWeekly: keep,
  keepMonthly: keep,
  keepWithinMs: keep,
});

/** What kind of thing a session records. */
const kind = z.enum(['group_chat', 'fleet', 'workflow_run', 'loop', 'thread', 'messages', 'state']);

/** What the state of a session used, and who is in it. */
export const usage = z.strictObject({
  kind,
  models: z.array(z.string()),
  agents: z.array(z.string()),
  messages: count.optional(),
  totals: totals.optional().describe('Absent where nothing of that kind is recorded'),
});

/** A value of a state as a row of a tree: what it is and how large, with its content if that is small. */
export const node = z.strictObject({
  key: z.union([z.string(), z.number()]),
  path: z.string(),
  type: z.string().describe('object, list, string, number, boolean, null, Date, Map, ...'),
  count: count.optional().describe('Elements or characters'),
  bytes: count.describe('About how long it is as JSON'),
  value: json.optional().describe('Absent where `isCut`, and of objects and lists'),
  preview: z.string().optional(),
  isCut: z.boolean(),
});

/** A call of a tool inside a message. */
export const call = z.strictObject({ id: z.string().optional(), name: z.string(), input: json.optional() });

/** What a tool answered. */
export const result = z.strictObject({
  id: z.string().optional(),
  name: z.string(),
  output: json.optional(),
  isError: z.boolean(),
});

/** What a checkpoint did, in a few words. */
export const label = z.strictObject({
  id: z.string(),
  speaker: z.string().optional(),
  text: z.string(),
  tools: z.array(z.string()),
  changes: count,
});

const driftStatus = z.enum(['healthy', 'suspect', 'drifting']);

/** How strong the signs were after a checkpoint that brought messages. */
export const driftPoint = z.strictObject({
  checkpointId: z.string(),
  sequence: count,
  savedAt: isoTime,
  status: driftStatus,
  scores: z.record(z.string(), z.number()).describe('By kind of sign; 1 is the alarm'),
  repetition: z.number().describe('How much the calls so far repeat earlier ones, 0 to 1'),
  news: z.number().optional().describe('How much of what was said and found was not known before, 0 to 1'),
  inputTokens: count.optional().describe('Given to models since the point before'),
});

/** What a detector says of a history: at its end, and after each checkpoint that brought messages. */
export const drift = z.strictObject({
  status: driftStatus,
  kinds: z.array(z.string()),
  agent: z.string().nullable(),
  onset: z.string().nullable().describe('The checkpoint with which it began'),
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
  points: z.array(driftPoint),
});

/** A memory, with how well it answers if it was searched. */
export const memory = z.strictObject({
  id: z.string(),
  memory: z.string(),
  kind: z.string(),
  subject: z.string(),
  slot: z.string().optional(),
  userId: z.string().optional(),
  agentId: z.string().optional(),
  trust: json.optional(),
  reinforcements: z.number(),
  observedAt: isoTime,
  supersededBy: z.string().optional(),
  score: z.number().optional(),
});

/** Why a memory exists: what taught it, and how it changed. */
export const memoryReasons = z.strictObject({
  id: z.string(),
  memory: z.string().nullable(),
  record: memory.optional().describe('Absent where it is not known from there'),
  supersededBy: z.string().optional(),
  sources: z.array(
    z.strictObject({
      operation: z.string(),
      at: isoTime,
      status: z.string(),
      isVisible: z.boolean(),
      turns: z.array(z.string()),
      sessionId: z.string().optional(),
      branch: z.string().optional(),
      checkpointId: z.string().optional(),
    }),
  ),
});
