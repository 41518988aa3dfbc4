import { resolve } from 'node:path';
import { InvalidInputError } from '../../../core/errors.ts';
import type { Command, CommandInput, Context, ExitCode } from '../../base/command.ts';
import { readText } from '../../place/read-text.ts';
import { newSessionName, readOnDifference, TALK_OPTIONS } from '../../team/talk-options.ts';

/** Begins a conversation of the configured team or a workflow, or goes on with one. */
export const command: Command = {
  arguments: '[words...]',
  options: [
    ['-n, --rounds <n>', 'maximum number of rounds; default: set by the team'],
    ...TALK_OPTIONS,
    ['--prompt-file <file>', 'read the prompt from a file, or - for standard input'],
    ['--input <json>', 'workflow: its input'],
    ['--answer <id=text>', 'workflow: the answer to an open question', 'repeat'],
  ],
  details: `Words are a prompt for the team; a file that ends with .yaml or .yml runs as a workflow.
Every message is a checkpoint, and so is every workflow step that says so. With --session an existing session continues.
Ctrl-C stops at the last checkpoint; "savestate continue" continues from there. A run that waits for an answer exits with 3.`,
  examples: [
    ['savestate run "Plan a trip to Lisbon"', 'a new session'],
    ['savestate run --session trip -n 4 "Cheaper, please"', 'continue a session'],
    [`savestate run refund.yaml --input '{"order":1042}'`, 'a workflow'],
    ['savestate run refund.yaml --session run-7 --answer approve=approve', 'with the answer it waits for'],
  ],
  run: async (context, input) => {
    const [file] = input.words;
    const isWorkflow = input.words.length === 1 && /\.ya?ml$/.test(file ?? '');
    return isWorkflow ? runWorkflowFile(context, input, file ?? '') : talk(context, input);
  },
};

async function runWorkflowFile(context: Context, input: CommandInput, file: string): Promise<ExitCode | undefined> {
  const { runWorkflow } = await import('../../workflow/run-workflow.ts');
  const sessionId = (await context.namedSession()) ?? newSessionName('run');
  return runWorkflow(context, input, { file, registry: input.text('registry'), sessionId });
}

async function talk(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const [{ holdTalk }, { tendTeam }, { commandWords, flagWords }] = await Promise.all([
    import('../../team/run-output.ts'),
    import('../../team/cut-off.ts'),
    import('../../team/run-text.ts'),
  ]);
  const words = (session: string) => commandWords(session, flagWords(context, input));
  const text = readPrompt(context, input);
  const rounds = input.limit('rounds'); // what is refused is refused before anything is made
  readOnDifference(input);
  if (input.has('answer'))
    throw new InvalidInputError(
      'Answer a question of a team with a prompt, or with "savestate continue --answer". Here --answer is for a workflow.',
    );
  const sessionId = (await context.namedSession()) ?? newSessionName('chat');
  return holdTalk(context, input, async ({ following, ...held }) => {
    await tendTeam(context, held, { words, sessionId });
    return held.talk.run({ sessionId, prompt: text, rounds }, following);
  });
}

function readPrompt(context: Context, input: CommandInput): string {
  const file = input.text('promptFile');
  if (file !== undefined && input.words.length > 0)
    throw new InvalidInputError('Pass the prompt as words or with --prompt-file, not both.');
  const text =
    file === undefined
      ? input.words.join(' ')
      : readText(file === '-' ? file : resolve(context.folder, file), 'prompt file');
  if (text.trim() === '') throw new InvalidInputError('Pass a task for the team: savestate run "..."');
  return text.trim();
}
