import { messageOf } from '../../core/errors.ts';
import type { CommandInput, Context } from '../base/command.ts';
import { formatFlags } from '../base/command-input.ts';
import { formatInput, inputOf } from '../state/state-text.ts';
import type { TeamQuestion, TeamResult } from './talk.ts';

/** What to type in order to go on. In the REPL that is less than on the command line. */
export type NextWords = {
  readonly goOn: string;
  readonly more: string;
  readonly say: (sessionId: string) => string;
  /** Absent where nobody can answer any more. */
  readonly answer?: (id: string, answers: string) => string;
  /** Said instead of all that where nothing is stored. */
  readonly notKept?: string;
};

/** Said where a run leaves nothing behind. */
export const NOT_KEPT = 'Nothing was kept: the run cannot be continued.';

/** The options of a command that the next one needs, too, to find the same storage and team. */
export function flagWords({ globals }: Pick<Context, 'globals'>, input?: CommandInput): string {
  const { storage, remote, tokenFile, tenant, schema } = globals;
  const [team, registry, memory] = ['team', 'registry', 'memory'].map((name) => input?.text(name));
  const code = input?.flag('allowCode') === true ? ' --allow-code' : '';
  return `${formatFlags({ storage, remote, 'token-file': tokenFile, tenant, schema, team, registry, memory })}${code}`;
}

/** On the command line; the session is named, so that a hint stays right when another one was used since. */
export function commandWords(session: string, flags = ''): NextWords {
  const goOn = `savestate continue${formatFlags({ session })}${flags}`;
  return {
    goOn,
    more: `${goOn} -n 5`,
    say: (sessionId) => `savestate run${formatFlags({ session: sessionId })}${flags} <words>`, // no shell runs it as it stands
    answer: (id, answers) => `${goOn} --answer '${id}=...'${answers === '' ? '' : `\nAnswers: ${answers}`}`,
  };
}

/** In the REPL; a session that one may not be in is named. */
export function replWords(named?: string): NextWords & Required<Pick<NextWords, 'answer'>> {
  const then = (words: string) => (named === undefined ? words : `use ${named}, then ${words}`);
  return {
    goOn: then('run'),
    more: then('run 5'),
    say: () => then('say something'),
    answer: (_, answers) => then(answers === '' ? 'your next line' : answers),
  };
}

/** How a run stopped, in a sentence, and what to do next. */
export function describeStop(result: TeamResult, given: NextWords): string {
  const { goOn, more, say } = given;
  // Before the first checkpoint there is nothing to go on with, whatever the storage keeps.
  const words = result.checkpointId === undefined ? { goOn, more, say, notKept: NOT_KEPT } : given;
  const next = (lead: string, text: string) => words.notKept ?? `${lead}: ${text}`;
  switch (result.status) {
    case 'ended': {
      const { detail, reason } = result.end;
      const isOver = reason !== 'max_rounds';
      const more = isOver ? next('To continue', words.say(result.sessionId)) : next('For more', words.more);
      return `Ended: ${detail}${/[.!?]$/.test(detail) ? '' : '.'} ${more}`;
    }
    case 'waiting':
      return describeQuestion(toQuestion(result.request), words);
    case 'failed':
      return `Failed: ${messageOf(result.error)}\n${next('Try again with', words.goOn)}`;
    case 'stopped':
      return `Stopped${words.notKept === undefined ? ' at the last checkpoint' : ''}. ${next('Continue with', words.goOn)}`;
  }
}

/** What the person is asked, and what to type. */
export function describeQuestion(question: TeamQuestion, { answer, notKept }: NextWords): string {
  const asked = formatQuestion(question);
  if (answer === undefined) return `It asked a question, and nobody was there to answer. ${asked} ${notKept ?? ''}`;
  return `Waiting for you. ${asked}\nAnswer with: ${answer(question.id, formatChoices(question.choices))}`;
}

/** Who asks what; of an operation also what it would be done with. */
export function formatQuestion({ agent, text, input }: TeamQuestion): string {
  return `${agent}: ${text}${input === null ? '' : `\n${formatInput(input)}`}`;
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
export function toQuestion(request: Request): TeamQuestion {
  const { id, agent } = request;
  if ('message' in request) {
    const text = request.plan === undefined ? request.message : `${request.message}\n${request.plan}`;
    const input = request.kind === 'operation' ? inputOf(request) : null;
    return { id, agent, text, choices: request.options, input };
  }
  return { id, agent, text: request.prompt, choices: request.choices ?? [], input: null };
}
