import type { Output } from '../base/output-schemas.ts';
import { formatTime } from '../terminal/format.ts';

/** The run of a workflow as `--json` tells it. */
export type RunOutput = Extract<Output<'run'>, { kind: 'workflow' }>;

/** How far a workflow came, step by step, and what to do next. */
export function describeWorkflow(output: RunOutput): string {
  const steps = output.steps.map(({ path, status }) => `${status.padEnd(7)}  ${path}\n`).join('');
  return `${steps}${describeEnd(output)}`;
}

/** Without a checkpoint nothing was kept, and nothing can be gone on with. */
function describeEnd({ status, output, failure, questions, timers, checkpointId }: RunOutput): string {
  const next = (words: string): string => (checkpointId === null ? '' : `${words}\n`);
  switch (status) {
    case 'completed':
      return `${typeof output === 'string' ? output : JSON.stringify(output, undefined, 2)}\n`;
    case 'failed':
      return `Failed at ${failure?.path}: ${failure?.message}\n${next('Try again with: savestate continue')}`;
    case 'waiting':
      return [
        ...questions.map(
          ({ id, text, choices }) =>
            `Waiting: ${text} (${choices.join(', ')})\n${next(`Answer with: savestate continue --answer '${id}=...'`)}`,
        ),
        ...timers.map(({ path, at }) => `${path} waits until ${formatTime(new Date(at))} UTC.\n`),
      ].join('');
  }
}
