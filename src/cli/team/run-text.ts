import { messageOf } from '../../core/errors.ts';
import type { TeamQuestion, TeamResult } from './talk.ts';

/** What to type in order to go on. In the REPL that is less than on the command line. */
export type NextWords = {
  readonly goOn: string;
  readonly more: string;
  readonly say: (sessionId: string) => string;
  readonly answer: (id: string, answers: string) => string;
};

/** On the command line; a session that is not the one used last is named. */
export function commandWords(named?: string): NextWords {
  const goOn = named === undefined ? 'savestate continue' : `savestate continue --session ${named}`;
  return {
    goOn,
    more: `${goOn} -n 5`,
    say: (sessionId) => `savestate run --session ${sessionId} "..."`,
    answer: (id, answers) => `${goOn} --answer '${id}=...'${answers === '' ? '' : `\nAnswers: ${answers}`}`,
  };
}

/** In the REPL. */
export const REPL_NEXT_WORDS: NextWords = {
  goOn: 'run',
  more: 'run 5',
  say: () => 'say something',
  answer: (_, answers) => (answers === '' ? 'your next line' : answers),
};

/** In the REPL, of a session that one may not be in. */
export function replWords(named: string): NextWords {
  const { answer } = REPL_NEXT_WORDS;
  const then = (words: string) => `use ${named}, then ${words}`;
  return {
    goOn: then('run'),
    more: then('run 5'),
    say: () => then('say something'),
    answer: (id, answers) => then(answer(id, answers)),
  };
}

/** How a run stopped, in a sentence, and what to do next; null: nothing was kept, so that there is nothing to go on from. */
export function describeStop(result: TeamResult, words: NextWords | null = commandWords()): string {
  if (words === null) return `${describeUnkept(result)} ${NOT_KEPT}`;
  switch (result.status) {
    case 'ended': {
      const { detail, reason } = result.end;
      const more = reason === 'max_rounds' ? `For more: ${words.more}` : `To go on: ${words.say(result.sessionId)}`;
      return `Ended: ${detail}${/[.!?]$/.test(detail) ? '' : '.'} ${more}`;
    }
    case 'waiting':
      return describeQuestion(toQuestion(result.request), words);
    case 'failed':
      return `Failed: ${messageOf(result.error)}\nTry again with: ${words.goOn}`;
    case 'stopped':
      return `Stopped at the last checkpoint. Go on with: ${words.goOn}`;
  }
}

/** Said where a run leaves nothing behind. */
export const NOT_KEPT = 'Nothing was kept: the run cannot be gone on with.';

function describeUnkept(result: TeamResult): string {
  switch (result.status) {
    case 'ended':
      return `Ended: ${result.end.detail}${/[.!?]$/.test(result.end.detail) ? '' : '.'}`;
    case 'waiting':
      return `It asked, and nobody was there to answer. ${result.request.agent}: ${toQuestion(result.request).text}`;
    case 'failed':
      return `Failed: ${messageOf(result.error)}\n`;
    case 'stopped':
      return 'Stopped.';
  }
}

/** What the person is asked, and what to type. */
export function describeQuestion({ id, agent, text, choices }: TeamQuestion, words: NextWords): string {
  return `Waiting for you. ${agent}: ${text}\nAnswer with: ${words.answer(id, formatChoices(choices))}`;
}

/** Answers that need words of their own. */
const WITH_WORDS: Readonly<Record<string, string>> = {
  edit: 'edit: <new plan>',
  revise: 'revise: <what to change>',
};

/** What can be typed: `approve, edit: <new plan> or reject`. */
export function formatChoices(choices: readonly string[]): string {
  const forms = choices.map((choice) => WITH_WORDS[choice] ?? choice);
  return forms.length < 2 ? forms.join('') : `${forms.slice(0, -1).join(', ')} or ${forms.at(-1)}`;
}

type Request = Extract<TeamResult, { status: 'waiting' }>['request'];

/** What is asked, in one form for chats and fleets. */
export function toQuestion(request: Request): TeamQuestion & { choices: string[] } {
  const { id, agent } = request;
  if ('message' in request) {
    const text = request.plan === undefined ? request.message : `${request.message}\n${request.plan}`;
    return { id, agent, text, choices: [...request.options] };
  }
  return { id, agent, text: request.prompt, choices: [...(request.choices ?? [])] };
}

/** The answer of a fleet that has ended, which nobody has said yet; a chat has said everything. */
export function formatAnswer(result: TeamResult): string {
  return result.status === 'ended' && 'answer' in result.end ? `\n${result.end.answer}\n` : '';
}
