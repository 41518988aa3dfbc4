import { basename, resolve } from 'node:path';
import { hasErrorCode, type SavestateError } from '../../../core/errors.ts';
import type { Problem } from '../../../runtime/config/problem.ts';
import { type Command, type CommandInput, type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { formatCount } from '../../terminal/format.ts';

const ACTIONS: Readonly<Record<string, Command['run']>> = { check, schema: printSchema };

/** Looks at workflow files. */
export const command: Command = {
  arguments: '<action> [file]',
  options: [['--registry <module>', 'check: load this code, and check the names against it; default: runs no code']],
  details: `Actions: check <file> (every problem of a workflow or of settings with line and column; exits with 1 if there is one), schema
(a JSON Schema of workflow files, for editors). "savestate run <file>" runs one.`,
  examples: [
    ['savestate workflow check refund.yaml', 'before it is run'],
    ['savestate workflow check refund.yaml --registry refund.mjs', 'the names of functions, too'],
    ['savestate workflow schema > workflow.schema.json', 'for an editor that completes YAML'],
  ],
  run: (context, input) => input.action('workflow', ACTIONS)(context, input),
};

async function check(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const file = input.need(1, 'which file');
  const problems = await findProblems(context, file, input.text('registry'));
  await context.answer({ file, isValid: problems.length === 0, problems }, () =>
    problems.length === 0
      ? `${file} is well.\n`
      : `${problems.map((problem) => formatProblem(file, problem)).join('')}${formatCount(problems.length, 'problem')}\n`,
  );
  return problems.length === 0 ? undefined : EXIT.failed;
}

async function findProblems(context: Context, file: string, registry: string | undefined): Promise<readonly Problem[]> {
  const { isSettingsFile, openWorkflow, openWorkflowRegistry, findRegistryPath } = await import(
    '../../workflow/workflow-file.ts'
  );
  const { readSettings } = await import('../../place/project.ts');
  const { checkRegistry } = await import('../../../runtime/workflow/definition/registry.ts');
  try {
    if (await isSettingsFile(context, file)) {
      await readSettings(resolve(context.folder, file), context.env);
      return [];
    }
    const { workflow } = await openWorkflow(context, file);
    const path = findRegistryPath(context, file, registry);
    // Only code that was named here: to look at a file must not run what lies beside it.
    if (registry === undefined && path !== undefined)
      context.say(`Its names were not checked against ${basename(path)}: that runs code, and needs --registry ${path}`);
    else if (path !== undefined) checkRegistry(workflow, await openWorkflowRegistry(context, path));
    return [];
  } catch (error) {
    const problems = hasErrorCode(error, 'INVALID_INPUT') ? (error as SavestateError).details.problems : undefined;
    if (!Array.isArray(problems)) throw error;
    return problems as Problem[];
  }
}

function formatProblem(file: string, { line, column, path, message }: Problem): string {
  const place = line === undefined ? '' : `:${line}:${column}`;
  return `${file}${place}: ${path === '' ? '' : `${path}: `}${message}\n`;
}

async function printSchema(context: Context): Promise<undefined> {
  const { workflowJsonSchema } = await import('../../../runtime/workflow/definition/definition-schema.ts');
  context.printJson(workflowJsonSchema());
}
