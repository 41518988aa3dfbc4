import { z } from 'zod';
import { accepts, checkOptions, checkValue, isRecord, type OptionChecks, string } from '../../../core/options.ts';
import { SETTINGS } from '../../config/config-schema.ts';
import { problemsError } from '../../config/problem.ts';
import { checkSchema } from '../../config/schema-problems.ts';
import { dataSource, type ProblemSource, yamlSource, yamlText } from '../../config/yaml-source.ts';
import { headerSchema, type WorkflowDefinition } from './definition-schema.ts';
import { checkGraph, orderSteps } from './graph-check.ts';
import { StepReader } from './read-steps.ts';
import type { Workflow } from './workflow.ts';

/** Where a workflow comes from, for messages and for its name if it has none. */
export type WorkflowSource = { readonly source?: string };

/** The steps are looked at one by one, so that one mistake does not hide the others. */
const outlineSchema = z.strictObject({
  ...SETTINGS.top,
  workflow: z.strictObject({ ...SETTINGS.workflow, ...headerSchema.shape }).prefault({}),
  steps: z.array(z.unknown()).min(1, 'must have a step'),
});

const SOURCE: OptionChecks<WorkflowSource> = { source: string };

/** Reads a workflow from YAML; throws an InvalidInputError with all problems, by line and column. */
export function parseWorkflow(text: string, options: WorkflowSource = {}): Workflow {
  checkValue(text, yamlText, 'The text of parseWorkflow()');
  checkOptions(options, SOURCE, 'parseWorkflow()');
  return readWorkflow(yamlSource(text), options.source ?? 'workflow.yaml');
}

/** Where a workflow says what it returns. */
const OUTPUT = ['workflow', 'output'];

const definitionObject = accepts('an object: { workflow, steps }', isRecord);

/** Makes a workflow from a definition in code; the keys are those of the YAML. */
export function defineWorkflow(definition: WorkflowDefinition): Workflow {
  checkValue(definition, definitionObject, 'The definition of defineWorkflow()');
  return readWorkflow(dataSource(definition), definition.workflow?.name ?? 'workflow');
}

function readWorkflow(source: ProblemSource, name: string): Workflow {
  const what = `Workflow "${name}"`;
  if (source.problems.length > 0) throw problemsError(what, source.problems);
  const outline = checkSchema({ source, schema: outlineSchema, value: source.data, path: [] });
  const { steps, header } = looseParts(source.data);
  if (steps.length === 0) throw problemsError(what, outline.problems);
  const reader = new StepReader(source, steps, { checkpoint: header.checkpoint === true });
  const output = header.output === undefined ? undefined : reader.template(header.output, OUTPUT);
  const { read, ids } = reader;
  const references = output && { template: output, path: OUTPUT };
  const problems = [...outline.problems, ...reader.problems, ...checkGraph({ source, read, ids, output: references })];
  if (problems.length > 0) throw problemsError(what, problems);
  return Object.freeze({
    name: outline.value?.workflow.name ?? nameFrom(name),
    description: outline.value?.workflow.description,
    steps: orderSteps(read.flatMap(({ step }) => step ?? [])),
    order: read.map(({ id }) => id),
    output,
  });
}

/** What can be looked at even if other parts are wrong. */
function looseParts(data: unknown): { steps: readonly unknown[]; header: { checkpoint?: unknown; output?: unknown } } {
  const { steps, workflow } = isRecord(data) ? data : {};
  return { steps: Array.isArray(steps) ? steps : [], header: isRecord(workflow) ? workflow : {} };
}

/** `flows/refund.yaml` is called `refund`. */
function nameFrom(source: string): string {
  const base = source.split(/[\\/]/).at(-1) ?? '';
  return base.replace(/\.ya?ml$/, '').replace(/[^\w-]/g, '_') || 'workflow';
}
