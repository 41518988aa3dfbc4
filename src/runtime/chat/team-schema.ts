import { z } from 'zod';
import type { CodeExecutionConfig } from '../code/code-executor.ts';
import type { LlmConfig } from '../model/llm-config.ts';

/** A model's configuration is checked where the model is known: its keys depend on the provider. */
const llm = z.custom<LlmConfig>(
  (value) => typeof value === 'object' && value !== null,
  'must be a model configuration',
);

const agent = z.strictObject({
  name: z.string().min(1),
  class: z.string().min(1).optional(),
  system_message: z.string().optional(),
  description: z.string().optional(),
  llm: llm.optional(),
  /** A model of the registry, by its id. */
  model: z.string().min(1).optional(),
  tools: z.array(z.string().min(1)).optional(),
  human_input_mode: z.enum(['NEVER', 'TERMINATE', 'ALWAYS']).optional(),
  max_consecutive_auto_replies: z.int().nonnegative().optional(),
  max_tool_rounds: z.int().positive().optional(),
  default_reply: z.string().optional(),
  code_execution: z.custom<CodeExecutionConfig>().optional(),
  runtime: z
    .strictObject({ stream: z.boolean().optional(), store: z.boolean().optional(), checkpoint: z.boolean().optional() })
    .optional(),
});

/** The form of a `team.yaml`. */
export const teamSchema = z.strictObject({
  agents: z.array(agent).min(1),
  /** A module beside the file that exports `registry`: tools, classes, models, predicates, selectors. */
  registry: z.string().min(1).optional(),
  speaker_selection: z
    .union([z.enum(['auto', 'round_robin', 'random', 'manual']), z.strictObject({ selector: z.string().min(1) })])
    .optional(),
  selector: llm.optional(),
  selector_model: z.string().min(1).optional(),
  allowed_transitions: z.record(z.string(), z.array(z.string())).optional(),
  allow_repeat_speaker: z.boolean().optional(),
  introductions: z.boolean().optional(),
  seed: z.int().optional(),
  max_rounds: z.int().positive().optional(),
  end: z
    .strictObject({
      signals: z.array(z.string().min(1)).optional(),
      pattern: z.string().min(1).optional(),
      predicate: z.string().min(1).optional(),
      max_tokens: z.int().positive().optional(),
      max_cost_usd: z.number().positive().optional(),
    })
    .optional(),
});

/** A team as its file describes it. */
export type TeamConfig = z.output<typeof teamSchema>;

/** One agent of it. */
export type TeamAgentConfig = TeamConfig['agents'][number];
