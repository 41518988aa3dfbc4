import { z } from 'zod';
import { configSchema, SETTINGS, type WorkflowConfig } from './config-schema.ts';
import { applyEnvironment, type Environment } from './environment-overrides.ts';
import { type Problem, problemsError } from './problem.ts';
import { checkSchema } from './schema-problems.ts';
import { type ProblemSource, yamlSource } from './yaml-source.ts';

/** Where settings come from besides the text. */
export type ConfigSource = {
  /** The environment of the process, for overrides: `SAVESTATE_WORKFLOW_CHECKPOINTING_STORAGE_TYPE`. */
  readonly env?: Environment;
  /** The file's name, for messages. */
  readonly source?: string;
};

/** A workflow definition may stand in the same file; its parts are checked where it is read. */
const fileSchema = z.strictObject({
  ...SETTINGS.top,
  workflow: z
    .strictObject({
      ...SETTINGS.workflow,
      name: z.unknown().optional(),
      description: z.unknown().optional(),
      checkpoint: z.unknown().optional(),
      output: z.unknown().optional(),
    })
    .prefault({}),
  steps: z.unknown().optional(),
});

/** Reads the settings of `workflow.yaml`; throws an InvalidInputError with all problems, by line and column. Nothing is ever ignored. */
export function loadWorkflowConfig(
  text: string,
  { env = {}, source = 'workflow.yaml' }: ConfigSource = {},
): WorkflowConfig {
  const file = yamlSource(text);
  if (file.problems.length > 0) throw problemsError(`"${source}"`, file.problems);
  const written = file.data ?? {};
  const problems = [...checkSchema({ source: file, schema: fileSchema, value: written, path: [] }).problems];
  if (problems.length > 0) throw problemsError(`"${source}"`, problems);
  const { data, problems: unknown } = applyEnvironment(written as object, env);
  const { value, problems: wrong } = checkSchema({ source: file, schema: fileSchema, value: data, path: [] });
  problems.push(
    ...unknown,
    ...wrong.map((problem) => ({ ...problem, message: `${problem.message} (from the environment)` })),
  );
  if (value === undefined || problems.length > 0) throw problemsError(`"${source}"`, problems);
  problems.push(...checkTogether(file, value));
  if (problems.length > 0) throw problemsError(`"${source}"`, problems);
  const settings = Object.entries(value.workflow).filter(([key]) => Object.hasOwn(SETTINGS.workflow, key));
  const workflow = Object.fromEntries(settings) as WorkflowConfig['workflow'];
  return configSchema.parse({ workflow, fleet: value.fleet, agents: value.agents });
}

/** What is wrong only together. */
function checkTogether(source: ProblemSource, { workflow }: z.output<typeof fileSchema>): Problem[] {
  const { checkpointing, human_in_the_loop: human } = workflow;
  const problems: Problem[] = [];
  if (checkpointing.enabled && checkpointing.storage_type === 'postgres' && checkpointing.storage_url === undefined)
    problems.push(
      source.place(
        ['workflow', 'checkpointing'],
        'storage_type postgres needs a storage_url, such as env:DATABASE_URL.',
        {
          key: 'storage_type',
        },
      ),
    );
  for (const operation of human.require_approval_for.filter((name) => human.trusted_operations.includes(name)))
    problems.push(
      source.place(
        ['workflow', 'human_in_the_loop'],
        `"${operation}" is in require_approval_for and in trusted_operations. Decide for one of them.`,
        { key: 'trusted_operations' },
      ),
    );
  return problems;
}
