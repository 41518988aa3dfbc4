import { z } from 'zod';
import { operationName, SETTINGS } from '../../config/config-schema.ts';
import { parseDuration } from '../../config/duration.ts';

/** What an id looks like. */
export const ID = /^[A-Za-z][\w-]*$/;
const id = z.string().regex(ID, 'must begin with a letter and have only letters, digits, "_" and "-"').max(100);
const duration = z
  .union([z.number(), z.string()])
  .refine((value) => parseDuration(value) !== undefined, {
    message: 'must be a duration such as 250ms, 30s, 5m, 2h, 1d, or a number of milliseconds',
  })
  .describe('250ms, 30s, 5m, 2h, 1d, or a number of milliseconds');
const condition = z.union([z.string().min(1), z.boolean()]).describe('An expression: steps.check.output.ok == true');
const count = z.int().min(1, 'must be a whole number of 1 or more');

const retry = z.strictObject({
  max_attempts: count.describe('Attempts in all, the first included.'),
  delay: duration.optional().describe('The pause before the second attempt; default 1s.'),
  factor: z.number().min(1).optional().describe('By what each pause is longer; default 2.'),
  max_delay: duration.optional().describe('Default 5m.'),
});

const approval = z.strictObject({
  message: z.string().min(1).describe('What the person is asked; may have references.'),
  options: z.array(z.string().min(1)).min(1).optional().describe('Default: approve, reject. "reject" rejects.'),
  timeout: duration.optional(),
  on_timeout: z.enum(['wait', 'reject', 'approve']).optional().describe('Default: wait. Needs a timeout.'),
});

const wait = z.union([duration, z.strictObject({ until: z.union([z.string().min(1), z.number()]) })], {
  error: 'must be a duration such as 30s, or { until: a time }',
});

const onError = z.union([z.enum(['stop', 'continue']), z.strictObject({ goto: id })], {
  error: 'must be stop, continue, or { goto: the id of a later step }',
});

const fields = {
  id: id.optional(),
  name: z.string().min(1).optional().describe('The id, if there is none; else what people read.'),
  description: z.string().optional(),
  agent: z.string().min(1).optional().describe('The name of an agent in the registry.'),
  function: z.string().min(1).optional().describe('The name of a function in the registry.'),
  workflow: z.string().min(1).optional().describe('The name of another workflow in the registry.'),
  approval: approval.optional(),
  wait: wait.optional(),
  input: z.unknown().optional().describe('Data, with references: {{ steps.fetch.output.items }}'),
  needs: z.union([id, z.array(id)], { error: 'must be an id or a list of ids' }).optional(),
  when: condition.optional(),
  repeat: z.strictObject({ until: condition, limit: count }).optional(),
  for_each: z
    .union(
      [z.string().min(1), z.array(z.unknown()), z.strictObject({ items: z.unknown(), concurrency: count.optional() })],
      { error: 'must be a list, a reference to a list, or { items, concurrency }' },
    )
    .optional(),
  retry: retry.optional(),
  timeout: duration.optional(),
  on_error: onError.optional(),
  checkpoint: z.boolean().optional().describe('Save after this step.'),
  operation: operationName.optional().describe('What kind of thing it does; some kinds need approval.'),
};

/** One step as it is written. */
export const stepSchema = z.strictObject({ ...fields, parallel: z.array(z.strictObject(fields)).min(1).optional() });

/** What is said about a workflow besides its steps. */
export const headerSchema = z.strictObject({
  name: id.optional(),
  description: z.string().optional(),
  checkpoint: z.boolean().optional().describe('Save after every step.'),
  output: z.unknown().optional().describe('What the run returns; default: the output of the last step.'),
});

/** A workflow as it is written, in YAML or TypeScript. */
const definitionSchema = z.strictObject({
  ...SETTINGS.top,
  workflow: z.strictObject({ ...SETTINGS.workflow, ...headerSchema.shape }).optional(),
  steps: z.array(stepSchema).min(1),
});

/** One step as it is written. */
export type StepDefinition = z.input<typeof stepSchema>;

/** What is said about a workflow besides its steps. */
type HeaderDefinition = z.input<typeof headerSchema>;

/** A workflow as it is written. */
export type WorkflowDefinition = { readonly workflow?: HeaderDefinition; readonly steps: readonly StepDefinition[] };

/** A JSON Schema of workflow files, for editors. */
export function workflowJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(definitionSchema, { io: 'input', unrepresentable: 'any' }) as Record<string, unknown>;
}
