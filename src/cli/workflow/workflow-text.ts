import type { Output } from '../output-schemas.ts';
import { formatTime } from '../terminal/format.ts';

/** The run of a workflow as `--json` tells it. */
export type RunOutput = Extract<Output<'run'>, { kind: 'workflow' }>;

/** How far a workflow came, step by step, and what to do next. */
export function describeWorkflow(output: RunOutput): string {
  const steps = output.steps.map(({ path, status }) => `${status.padEnd(7)}  ${path}\n`).join('');
  return `${steps}${describeEnd(output)}`;
}

function describeEnd({ status, output, failure, questions, timers }: RunOutput): string {
  switch (status) {
    case 'completed':
      return `${typeof output === 'string' ? output : JSON.stringify(output, undefined, 2)}\n`;
    case 'failed':
      return `Failed at ${failure?.path}: ${failure?.message}\nTry again with: savestate continue\n`;
    case 'waiting':
      return [
        ...questions.map(
          ({ id, text, choices }) =>
            `Waiting: ${text} (${choices.join(', ')})\nAnswer with: savestate continue --answer '${id}=...'\n`,
        ),
        ...timers.map(({ path, at }) => `${path} waits until ${formatTime(new Date(at))} UTC.\n`),
      ].join('');
  }
}
