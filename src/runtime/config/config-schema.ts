import { z } from 'zod';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { DEFAULT_RUNTIME } from '../agent/agent-state.ts';
import { APPROVAL_TIMEOUT_SECONDS, findSlip, NEEDING_APPROVAL, TRUSTED } from './operation-name.ts';

const count = z.int().min(0, 'must be a whole number of 0 or more');
const positive = z.int().min(1, 'must be a whole number of 1 or more');
const flag = z.boolean();
const MAX_TIMEOUT_SECONDS = Math.floor(MAX_DELAY_MS / 1_000);

/** The name of an operation, or a pattern with `*`. */
export const operationName = z
  .string()
  .min(1)
  .refine((name) => findSlip(name) === undefined, { error: ({ input }) => findSlip(String(input)) ?? '' });

/** Where and how long checkpoints are kept. */
export const checkpointingSchema = z.strictObject({
  enabled: flag.default(true).describe('false: nothing is saved. Only this switches checkpointing off.'),
  storage_type: z.enum(['file', 'memory', 'sqlite', 'postgres']).default('file'),
  storage_path: z
    .string()
    .min(1)
    .default('./checkpoints')
    .describe('file: the folder. sqlite: the file, or its folder.'),
  storage_url: z
    .string()
    .min(1)
    .optional()
    .describe('postgres: the connection string, best as a reference: env:DATABASE_URL.'),
  storage_schema: z.string().min(1).optional().describe('postgres: where the tables are.'),
  storage_tenant: z.string().min(1).default('default').describe('postgres: whose data this is.'),
  cleanup_after_days: positive.optional().describe('Older checkpoints are pruned when the process starts.'),
  auto_resume_on_failure: flag
    .default(false)
    .describe('A run that failed, or a chat or fleet whose process was killed, is resumed from its last checkpoint.'),
  auto_resume_limit: positive.default(3).describe('How often.'),
  auto_resume_backoff_seconds: z.number().min(0).default(1).describe('The first pause; doubled each time.'),
});

/** Which operations a person must agree to, and what happens if nobody answers. */
export const humanInTheLoopSchema = z.strictObject({
  enabled: flag.default(true),
  approval_timeout_seconds: z.number().positive().default(APPROVAL_TIMEOUT_SECONDS),
  auto_reject_on_timeout: flag.default(false).describe('false: the request stays open.'),
  require_approval_for: z.array(operationName).default(NEEDING_APPROVAL),
  trusted_operations: z.array(operationName).default(TRUSTED),
});

const workflowSettings = z.strictObject({
  max_rounds: positive
    .optional()
    .describe('How many replies or rounds a run may have. Default: what the team or fleet says.'),
  max_stalls: count.optional().describe('Fleets: stalls before a new plan. Default: what the fleet says.'),
  max_resets: count.optional().describe('Fleets: new plans. Default: what the fleet says.'),
  timeout_seconds: z
    .number()
    .positive()
    .max(MAX_TIMEOUT_SECONDS, `must be ${MAX_TIMEOUT_SECONDS} at most, 24 days: no timer waits longer`)
    .optional()
    .describe('A run at the command line is stopped after this. Default: never.'),
  checkpointing: checkpointingSchema.prefault({}),
  human_in_the_loop: humanInTheLoopSchema.prefault({}),
});

const fleetSettings = z.strictObject({
  orchestrator: z
    .strictObject({
      max_round_count: positive.optional().describe('As workflow.max_rounds, for fleets.'),
      max_stall_count: count.optional(),
      max_reset_count: count.optional(),
    })
    .prefault({}),
  plan_review: z
    .strictObject({ enabled: flag.default(true), require_human_approval: flag.default(false) })
    .prefault({}),
  callbacks: z
    .strictObject({
      streaming: flag.default(true),
      log_progress_ledger: flag.default(true),
      log_tool_calls: flag.default(true),
    })
    .prefault({}),
});

const agentSettings = z.strictObject({
  runtime: z
    .strictObject({
      stream: flag.default(DEFAULT_RUNTIME.stream),
      store: flag
        .default(DEFAULT_RUNTIME.store)
        .describe('Learned by long-term memory: what an agent says is no fact until you say so.'),
      checkpoint: flag.default(DEFAULT_RUNTIME.checkpoint),
    })
    .prefault({}),
});

/** The settings of `workflow.yaml`, with their defaults. */
export const configSchema = z.strictObject({
  workflow: workflowSettings.prefault({}),
  fleet: fleetSettings.prefault({}),
  agents: z.record(z.string(), agentSettings).default({}),
});

/** All settings, complete. */
export type WorkflowConfig = z.output<typeof configSchema>;

/** Where and how long checkpoints are kept. */
export type CheckpointingSettings = WorkflowConfig['workflow']['checkpointing'];

/** Checkpointing settings as they may be written; what they leave out is as by default. */
export type GivenCheckpointing = z.input<typeof checkpointingSchema>;

/** Which operations a person must agree to. */
export type HumanInTheLoopSettings = WorkflowConfig['workflow']['human_in_the_loop'];

/** The parts of a file that settings own; a workflow definition may stand in the same file. */
export const SETTINGS = { top: configSchema.shape, workflow: workflowSettings.shape } as const;
