import { z } from 'zod';
import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions, checkValue, isRecord, type OptionChecks, record, string } from '../../core/options.ts';
import { checkpointingSchema, configSchema, SETTINGS, type WorkflowConfig } from './config-schema.ts';
import { findContradictions } from './contradictions.ts';
import { applyEnvironment, type Environment, variableOf } from './environment-overrides.ts';
import { type Problem, problemsError } from './problem.ts';
import { checkSchema } from './schema-problems.ts';
import { yamlSource, yamlText } from './yaml-source.ts';

/** Where settings come from besides the text. */
export type ConfigSource = {
  /** The environment of the process, for overrides: `SAVESTATE_WORKFLOW_CHECKPOINTING_STORAGE_TYPE`. */
  readonly env?: Environment;
  /** The file's name, for messages. */
  readonly source?: string;
};

/** Settings, and which of them were written: what was not may be left to the team or fleet that is run. */
export type ReadConfig = {
  readonly config: WorkflowConfig;
  readonly written: WrittenConfig;
  /** What the text itself says, without the settings below it and the environment. */
  readonly own: WrittenConfig;
};

/** The settings that a file or the environment gives, without defaults. */
export type WrittenConfig = z.input<typeof configSchema>;

/** A workflow definition may stand in the same file; its parts are checked where it is read. */
const fileSchema = z.strictObject({
  ...SETTINGS.top,
  workflow: z
    .strictObject({
      ...SETTINGS.workflow,
      name: z.string().optional(),
      description: z.string().optional(),
      checkpoint: z.boolean().optional(),
      output: z.unknown().optional(),
    })
    .prefault({}),
  steps: z.unknown().optional(),
});

const settingsSchema = z.strictObject({ ...SETTINGS.top, workflow: z.strictObject(SETTINGS.workflow).prefault({}) });

const SOURCE: OptionChecks<ConfigSource> = { env: record, source: string };

/** Reads the settings of `workflow.yaml`; throws an InvalidInputError with all problems, by line and column. Nothing is ever ignored. */
export function loadWorkflowConfig(text: string, options: ConfigSource = {}): WorkflowConfig {
  checkValue(text, yamlText, 'The text of loadWorkflowConfig()');
  checkOptions(options, SOURCE, 'loadWorkflowConfig()');
  return readWorkflowConfig(text, options).config;
}

/** Like `loadWorkflowConfig`; also returns what was written. What the text leaves out, the settings `below` it may say. */
export function readWorkflowConfig(
  text: string,
  { env = {}, source = 'workflow.yaml' }: ConfigSource = {},
  below: WrittenConfig = {},
): ReadConfig {
  const file = yamlSource(text);
  const refuse = (problems: readonly Problem[]): void => {
    if (problems.length > 0) throw problemsError(`"${source}"`, problems);
  };
  refuse(file.problems);
  const inFile = file.data ?? {};
  const schema = typeof inFile === 'object' && 'steps' in inFile ? fileSchema : settingsSchema;
  refuse(checkSchema({ source: file, schema, value: inFile, path: [] }).problems);
  const { data, problems: unknown } = applyEnvironment(putOver(below, inFile as object), env);
  const { value, problems: wrong } = checkSchema({ source: file, schema, value: data, path: [] });
  refuse([...unknown, ...wrong.map(({ path, message }) => ({ path: variableOf(path), message }))]); // the file is well
  const config = withoutFormerPath(configSchema.parse(pickSettings(value ?? {})));
  const written = pickSettings(data) as WrittenConfig;
  const read = { config, written, own: pickSettings(inFile as object) as WrittenConfig };
  refuse(findContradictions(file, read));
  return read;
}

/** Whoever says postgres over the settings of a file means another place than that file's path. */
function withoutFormerPath(config: WorkflowConfig): WorkflowConfig {
  const { checkpointing } = config.workflow;
  if (checkpointing.storage_type !== 'postgres') return config;
  const { storage_path } = checkpointingSchema.parse({});
  return { ...config, workflow: { ...config.workflow, checkpointing: { ...checkpointing, storage_path } } };
}

function pickSettings({ workflow, fleet, agents }: { workflow?: object; fleet?: unknown; agents?: unknown }): object {
  const settings = Object.entries(workflow ?? {}).filter(([key]) => Object.hasOwn(SETTINGS.workflow, key));
  const parts = { workflow: Object.fromEntries(settings), fleet, agents };
  return withoutUndefined(parts);
}

function putOver(below: object, above: object): object {
  const merged: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const under = merged[key];
    merged[key] = isRecord(under) && isRecord(value) ? putOver(under, value) : value;
  }
  return merged;
}
