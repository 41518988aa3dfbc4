import { messageOf } from '../../core/errors.ts';
import { closing } from '../base/closing.ts';
import type { CommandInput, Context } from '../base/command.ts';
import { EXIT, type ExitCode, exitCodeOf, isInterrupt } from '../base/exit-code.ts';
import { askLine } from '../terminal/ask.ts';
import { openTeam, readTeamChoice, type Team } from './open-team.ts';
import {
  commandWords,
  describeStop,
  flagWords,
  formatChoices,
  formatQuestion,
  type NextWords,
  NOT_KEPT,
  toQuestion,
} from './run-text.ts';
import { type Following, Talk, type TeamQuestion, type TeamResult } from './talk.ts';
import { checkKind } from './talk-options.ts';

/** A talk that a command holds: with whom, and who listens. */
export type HeldTalk = { readonly team: Team; readonly talk: Talk; readonly following: Following };

/** Holds a talk with the team that a command names, and tells how it ended; returns the exit code. */
export async function holdTalk(
  context: Context,
  input: CommandInput,
  work: (held: HeldTalk) => Promise<TeamResult>,
): Promise<ExitCode | undefined> {
  const team = await openTeam(context, readTeamChoice(input));
  checkKind(input, team.kind);
  return closing(await Talk.open(context, team, input), async (talk) => {
    const result = await work({ team, talk, following: follow(context) });
    const isKept = await context.keepsRuns();
    await tellEnd(context, result, isKept ? commandWords(result.sessionId, flagWords(context, input)) : UNKEPT);
    if (isKept)
      context.say(`session ${result.sessionId}, branch ${result.branch}, ${result.checkpointId ?? 'no checkpoint'}`);
    return exitCodeOfRun(result);
  });
}

const UNKEPT: NextWords = { goOn: '', more: '', say: () => '', notKept: NOT_KEPT };

/** Follows a run on the terminal: words as they come, and what a fleet does meanwhile. */
export function follow(context: Context): Following {
  const { signal, terminal, globals, isJson } = context;
  const canAsk = terminal.canAsk && globals.input && !isJson;
  const print = isJson ? () => undefined : terminal.print;
  let isStreamed = false;
  return {
    signal,
    onText: (speaker, delta) => {
      print(isStreamed ? delta : `\n${speaker}: ${delta}`);
      isStreamed ||= delta !== '';
    },
    // Words that were streamed are not said again when their message is complete.
    onMessage: ({ name, content }) => {
      print(isStreamed ? '\n' : `\n${name}: ${content}\n`);
      isStreamed = false;
    },
    onWork: (line) => context.say(line),
    ask: canAsk ? askPerson : undefined,
  };
}

/** Asks the person at the terminal. An empty line, or Ctrl-C, is no answer: the run then stops and waits. */
async function askPerson(
  question: TeamQuestion,
  signal: AbortSignal = new AbortController().signal,
): Promise<string | undefined> {
  const { choices } = question;
  const which = choices.length === 0 ? '' : `\n(${formatChoices(choices)})`;
  try {
    return (await askLine(`\n${formatQuestion(question)}${which}\n> `, signal)) || undefined;
  } catch (error) {
    if (isInterrupt(error) && !signal.aborted) return undefined;
    throw error;
  }
}

/** Tells how a run stopped, what a fleet answered, what differs, and what could not be written. */
export async function tellEnd(context: Context, result: TeamResult, words: NextWords): Promise<void> {
  const output = toRunOutput(result, words);
  // What a chat says was said already.
  await context.answer(output, () => `${output.answer === null ? '' : `\n${output.answer}\n`}\n${output.detail}\n`);
  const problems = [...result.failedSaves, ...('fileProblems' in result ? result.fileProblems : [])].map(messageOf);
  for (const text of [...result.differences.map((difference) => difference.text), ...problems])
    context.say(`warning: ${text}`);
}

/** A run as `--json` tells it. */
function toRunOutput(result: TeamResult, words: NextWords) {
  const { sessionId, branch, checkpointId, status, messages, totals } = result;
  const isChat = 'newMessages' in result;
  return {
    kind: isChat ? 'chat' : 'fleet',
    sessionId,
    branch,
    checkpointId: (words.notKept === undefined ? checkpointId : undefined) ?? null,
    status,
    ...describeEnd(result),
    detail: describeStop(result, words),
    question: result.status === 'waiting' ? toQuestion(result.request) : null,
    newMessages: isChat ? result.newMessages : null,
    messages: messages.map(({ name, content }) => ({ name, content })),
    tokens: totals.inputTokens + totals.outputTokens,
    costUsd: totals.costUsd,
    folder: (isChat ? result.folder : undefined) ?? null,
  };
}

function describeEnd(result: TeamResult) {
  if (result.status !== 'ended') return { reason: null, signal: null, answer: null };
  const { end } = result;
  if ('answer' in end) return { reason: end.reason, signal: null, answer: end.answer };
  return { reason: end.reason, signal: end.signal ?? null, answer: null };
}

/** What waits for a person is done in part. */
function exitCodeOfRun(result: TeamResult): ExitCode | undefined {
  switch (result.status) {
    case 'ended':
      return undefined;
    case 'waiting':
      return EXIT.partial;
    case 'failed':
      return exitCodeOf(result.error);
    case 'stopped':
      return EXIT.interrupted;
  }
}
