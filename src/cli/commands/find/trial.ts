import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { isRecord } from '../../../core/options.ts';
import { LinearPattern } from '../../../core/pattern/linear-pattern.ts';
import type { Intervention } from '../../../runtime/repair/intervention.ts';
import type { Judge, TrialOptions } from '../../../runtime/repair/trial.ts';
import { toJsonForm } from '../../../view/json-form.ts';
import { type Command, type CommandInput, type Context, EXIT } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { ALLOW_CODE, splitPair } from '../../team/talk-options.ts';
import { askCommand, STOP } from './ask-command.ts';

const DEFAULT_REPEATS = 8;
const DEFAULT_ROUNDS = 5;

/** Finds out by experiment whether a change repairs a conversation. */
export const command: Command = {
  arguments: '<revision>',
  options: [
    ['--message <n>', 'change this message, counted from 1, or "last"; with --replace'],
    ['--tool-result <call>', 'change the result of a tool call, by its id; with --replace'],
    ['--replace <text>', 'the replacement'],
    ['--system <agent=text>', "change an agent's system message"],
    ['--model <agent=json>', "change an agent's model, or fields of it"],
    ['--repeats <n>', `number of runs with the change, and as many without; default ${DEFAULT_REPEATS}`],
    ['-n, --rounds <n>', `replies in each run; default ${DEFAULT_ROUNDS}`],
    ['--judge-text <regex>', 'a run succeeds if its last message matches'],
    ['--judge-command <command>', 'a run succeeds if this shell command exits with 0; it gets the messages as JSON'],
    ['--concurrency <n>', 'parallel runs; default 1'],
    ['--name <name>', 'resume the trial of this name, or give it one'],
    ['--reason <text>', 'the reason, for later readers'],
    ['--team <file>', 'the team with the tools and models; default: the one in savestate.yaml'],
    ALLOW_CODE,
    ['--registry <module>', 'the module with the code of the team; default: the one next to it'],
  ],
  details: `Continues from one checkpoint with the change and without it, each run on its own branch, and says whether the difference
could be chance (Fisher's exact test). Without a change only the unedited runs are made. Every run really calls its tools.
Ctrl-C prints the results so far; the same command with --name continues. Exits with 3 if runs failed or were not judged.`,
  examples: [
    [`savestate trial @ --message 1 --replace "In kilometres, please" --judge-text "km"`, 'another request'],
    [
      `savestate trial @~2 --system "critic=Be strict." --repeats 12 --judge-command "grep -q approved"`,
      'another prompt',
    ],
  ],
  run: async (context, input) => {
    const options = readOptions(context, input);
    const judge = createJudge(context, input);
    const { openTeam, readTeamChoice } = await import('../../team/open-team.ts');
    const { trial } = await import('../../../runtime/repair/trial.ts');
    const { formatTrial } = await import('../../../runtime/repair/trial-report.ts');
    const opened = await context.open();
    const { id } = await resolveRevision(opened, input.need(0, 'from which checkpoint'));
    const { registry } = (await openTeam(context, readTeamChoice(input))).create();
    const total = options.repeats * (options.intervention === undefined ? 1 : 2);
    let done = 0;
    const report = await context.showing({ noun: 'runs', total }, (show) =>
      trial({ manager: opened.manager, registry }, id, { ...options, judge, onRun: () => show(++done) }),
    );
    await context.answer(toJsonForm(report), () => formatTrial(report));
    if (!report.isComplete) context.say(`To continue, run the same command with --name ${report.name}`);
    if (!report.isComplete) return EXIT.interrupted;
    return (report.edited?.errors ?? 0) + report.control.errors > 0 ? EXIT.partial : undefined;
  },
};

/** How runs are judged: by their last words, or by a command. */
function createJudge(context: Context, input: CommandInput): Judge {
  const [text, command] = [input.text('judgeText'), input.text('judgeCommand')];
  if ((text === undefined) === (command === undefined))
    throw new InvalidInputError('Say how runs are judged: --judge-text <regex>, or --judge-command <command>.');
  return text === undefined ? judgeByCommand(context, command ?? '') : judgeByText(text);
}

function judgeByText(source: string): Judge {
  const pattern = new LinearPattern({ source }, '--judge-text');
  return ({ messages }) => pattern.test(messages.at(-1)?.content ?? '');
}

/** It gets the messages as JSON on its standard input, and does not learn which kind of run it judges. */
function judgeByCommand(context: Context, command: string): Judge {
  return async ({ messages }, { signal }) => {
    const input = messages.map(({ name, content }) => ({ name, content }));
    const code = await askCommand(context, ['sh', '-c', command], { input, signal });
    if (typeof code === 'number' && code !== STOP) return code === 0;
    throw new Error(`The command "${command}" could not judge (${code === STOP ? `exit code ${STOP}` : code}).`);
  };
}

function readOptions(context: Context, input: CommandInput): Omit<TrialOptions, 'judge'> {
  return withoutUndefined({
    repeats: input.limit('repeats') ?? DEFAULT_REPEATS,
    rounds: input.limit('rounds') ?? DEFAULT_ROUNDS,
    signal: context.signal,
    intervention: readIntervention(input),
    name: input.text('name'),
    reason: input.text('reason'),
    author: context.author,
    concurrency: input.limit('concurrency'),
  });
}

function readIntervention(input: CommandInput): Intervention | undefined {
  const [message, call, system, model] = ['message', 'toolResult', 'system', 'model'].map((name) => input.text(name));
  if ([message, call, system, model].filter((each) => each !== undefined).length > 1)
    throw new InvalidInputError(
      'A trial changes one thing. Use one of --message, --tool-result, --system and --model.',
    );
  if (system !== undefined) {
    const [agent, text] = splitPair(system, '--system', 'agent=value');
    return { systemMessage: { agent, text } };
  }
  if (model !== undefined) {
    const [agent, json] = splitPair(model, '--model', 'agent=value');
    return { llmConfig: { agent, config: parseObject(json) } };
  }
  const replacement = input.text('replace');
  if (message === undefined && call === undefined) {
    if (replacement === undefined) return undefined;
    throw new InvalidInputError('Say what --replace replaces: --message <n> or --tool-result <call>.');
  }
  if (replacement === undefined) throw new InvalidInputError('Pass the replacement: --replace <text>');
  if (call !== undefined) return { toolResult: { callId: call }, replacement };
  return { message: parseMessagePlace(message ?? ''), replacement };
}

function parseMessagePlace(text: string): number | 'last' {
  if (text === 'last') return 'last';
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new InvalidInputError(`--message must be a number, counted from 1, or "last"; found "${text}".`);
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch (cause) {
    throw new InvalidInputError(`--model needs JSON after the agent; found ${text}`, { cause });
  }
  throw new InvalidInputError(`--model needs a JSON object after the agent; found ${text}`);
}
