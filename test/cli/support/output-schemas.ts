import { z } from 'zod';
import { RUNTIME_SCHEMAS } from './runtime-schemas.ts';

const id = z.string().regex(/^chk_[0-9a-z]{22}$/);
const time = z.iso.datetime();
const count = z.int().min(0);
const json = z.unknown();

/** A checkpoint without its state. */
const checkpoint = z.strictObject({
  id,
  sessionId: z.string(),
  branch: z.string(),
  parentId: id.optional(),
  sequence: count,
  savedAt: time,
  type: z.string(),
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
  /** Branches whose head it is. */
  heads: z.array(z.string()).optional(),
  tags: z.array(z.string()).optional(),
});

const session = z.strictObject({
  id: z.string(),
  currentBranch: z.string(),
  branches: z.array(z.string()),
  /** The head of the current branch; absent while there is no checkpoint. */
  headId: id.optional(),
  /** Its number on that branch. */
  sequence: count,
  /** Of a session without a checkpoint: how many steps it recorded. */
  steps: count.optional(),
  savedAt: time,
  status: z.string().optional(),
  agentId: z.string().optional(),
  userId: z.string().optional(),
  /** Of a thread of LangGraph: the sessions of its subgraphs. */
  subgraphs: z.array(z.string()).optional(),
});

const counts = z.strictObject({ added: count, removed: count, modified: count, moved: count });

const diff = z.strictObject({
  before: checkpoint,
  after: checkpoint,
  hasChanges: z.boolean(),
  counts: z.strictObject({ total: counts, fields: z.record(z.string(), counts) }),
  added: z.array(z.strictObject({ path: z.string(), newValue: json })),
  removed: z.array(z.strictObject({ path: z.string(), oldValue: json })),
  modified: z.array(z.strictObject({ path: z.string(), oldValue: json, newValue: json })),
  moved: z.array(z.strictObject({ from: z.string(), path: z.string() })),
});

const blame = z.array(z.strictObject({ path: z.string(), value: json, checkpoint }));

const grep = z.array(
  z.strictObject({ checkpointId: id, sequence: count, savedAt: time, path: z.string(), text: z.string() }),
);

const stats = z.strictObject({
  storage: z.string(),
  kind: z.string(),
  sessions: count,
  checkpoints: count,
  tombstones: count,
  chunks: count,
  /** What the states would take up one by one. */
  logicalBytes: count,
  storedBytes: count,
  /** The part of the logical bytes that is not stored; 0 if there is more stored than that. */
  saved: z.number().min(0),
  growth: z.array(z.strictObject({ until: time, checkpoints: count, logicalBytes: count })),
});

/** A branch; `name` says the same as `branch`, for scripts that read it. */
const branchHead = z.strictObject({ sessionId: z.string(), branch: z.string(), name: z.string(), headId: id });
const branch = z.union([
  z.array(branchHead.omit({ sessionId: true }).extend({ isCurrent: z.boolean() })),
  branchHead,
  z.strictObject({ sessionId: z.string(), deleted: z.string(), headId: id }),
]);
const tag = z.union([
  z.array(z.strictObject({ name: z.string(), checkpointId: id })),
  z.strictObject({ name: z.string(), checkpointId: id }),
  z.strictObject({ deleted: z.string(), checkpointId: id }),
]);

const operation = z.strictObject({
  id: z.string(),
  at: time,
  sessionId: z.string(),
  summary: z.string(),
  isUndone: z.boolean(),
});

const flip = z.strictObject({ checkpointId: id, sequence: count, to: z.enum(['good', 'bad']) });
const bisect = z.union([
  z.strictObject({
    status: z.enum(['found', 'no-bad', 'undecided']),
    firstBad: checkpoint.optional(),
    lastGood: checkpoint.optional(),
    /** If all that were between were skipped. */
    candidates: z.array(id),
    evaluations: count,
    isMonotone: z.boolean(),
    flips: z.array(flip),
  }),
  z.strictObject({
    status: z.enum(['waiting', 'testing', 'reset']),
    next: checkpoint.optional(),
    candidates: z.array(id),
    stepsLeft: count.optional(),
  }),
]);

const verify = z.strictObject({
  status: z.enum(['clean', 'forgotten', 'damaged']),
  checkpoints: count,
  tombstones: count,
  chunks: count,
  effects: count,
  sessions: count,
  hasReadData: z.boolean(),
  findings: z.array(z.strictObject({ subject: z.string(), problem: z.string() })),
  damagedCheckpoints: z.array(z.string()),
  forgotten: z.array(z.strictObject({ sessionId: z.string(), checkpoints: count })),
});

const prune = z.strictObject({
  isDryRun: z.boolean(),
  kept: count,
  dropped: count,
  deleted: z.array(id),
  verdicts: z.array(z.strictObject({ id, keep: z.boolean(), reason: z.string() })),
  collected: z.strictObject({ chunks: count, bytes: count }).optional(),
});

const forget = z.strictObject({
  isDryRun: z.boolean(),
  checkpoints: count,
  sessions: z.array(z.string()),
  memories: count.optional(),
  left: z.array(z.strictObject({ sessionId: z.string(), checkpoints: z.array(z.string()), steps: count })).optional(),
  /** Sessions of the user whose key was removed. */
  unreadable: z.array(z.string()).optional(),
  collected: z.strictObject({ chunks: count, bytes: count }).optional(),
});

const imported = z.union([
  z.strictObject({ sessionId: z.string(), checkpoints: count, chunks: count, effects: count }),
  z.strictObject({
    sessions: count,
    subagents: count,
    entries: count,
    present: count,
    skipped: z.array(z.strictObject({ file: z.string(), line: count, reason: z.string() })),
  }),
  z.strictObject({
    sessions: z.array(
      z.strictObject({ sessionId: z.string(), checkpoints: count, messages: count, isNew: z.boolean() }),
    ),
    spans: count,
    otherSpans: count,
  }),
]);

const copy = z.strictObject({
  from: z.string(),
  to: z.string(),
  sessions: z.array(
    z.strictObject({ sessionId: z.string(), checkpoints: count, present: count, problem: z.string().optional() }),
  ),
  checkpoints: count,
  present: count,
  status: z.enum(['complete', 'partial']),
  chunks: count,
  deleted: count,
  deletedSessions: z.array(z.string()),
  unchecked: count,
  findings: z.array(z.string()),
});

/** What each command prints with `--json`. Fields are only ever added. */
export const OUTPUT_SCHEMAS = {
  sessions: z.array(session),
  log: z.array(checkpoint),
  show: z.union([
    z.strictObject({ checkpoint, state: json }),
    z.strictObject({ checkpoint, path: z.string(), value: json }),
  ]),
  diff,
  blame,
  grep,
  stats,
  /** One such line for each checkpoint. */
  follow: checkpoint,
  drift: RUNTIME_SCHEMAS.drift,
  run: RUNTIME_SCHEMAS.run,
  resume: RUNTIME_SCHEMAS.resume,
  continue: RUNTIME_SCHEMAS.continue,
  fork: branchHead,
  rewind: branchHead,
  branch,
  switch: z.strictObject({ sessionId: z.string(), branch: z.string() }),
  tag,
  undo: z.union([z.array(operation), operation]),
  trial: RUNTIME_SCHEMAS.trial,
  bisect,
  verify,
  prune,
  gc: z.strictObject({ chunks: count, bytes: count, recordings: count }),
  forget,
  redact: z.strictObject({
    isDryRun: z.boolean(),
    sessionId: z.string(),
    checkpoints: count,
    effects: count,
    /** How many texts and values were taken out, over all checkpoints. */
    places: count,
    /** Where names that stay hold it, too. */
    keptNames: z.array(z.enum(['session', 'branch', 'tag', 'user', 'agent'])),
    collected: z.strictObject({ chunks: count, bytes: count }).optional(),
  }),
  export: z.strictObject({ file: z.string(), sessionId: z.string(), bytes: count }),
  import: imported,
  copy,
  backup: copy,
  'restore-backup': copy,
  key: z.array(
    z.strictObject({
      id: z.string().regex(/^k_[0-9a-f]{16}$/),
      name: z.string(),
      createdAt: time,
      isNewest: z.boolean(),
      removedAt: time.optional(),
    }),
  ),
  memory: RUNTIME_SCHEMAS.memory,
  workflow: RUNTIME_SCHEMAS.workflow,
  init: z.strictObject({ storage: z.string(), config: z.string(), wasThere: z.boolean() }),
  config: z.strictObject({
    path: z.string().optional(),
    storage: z.string(),
    values: z.record(z.string(), json),
  }),
  doctor: z.strictObject({
    isHealthy: z.boolean(),
    checks: z.array(
      z.strictObject({ name: z.string(), status: z.enum(['ok', 'note', 'warning', 'failed']), message: z.string() }),
    ),
  }),
} as const;

/** The commands that have a JSON answer. */
export type OutputName = keyof typeof OUTPUT_SCHEMAS;

/** The JSON answer of a command. */
export type Output<Name extends OutputName> = z.infer<(typeof OUTPUT_SCHEMAS)[Name]>;
