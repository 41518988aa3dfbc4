import type { TeamQuestion, TeamResult } from './talk.ts';

/** What to type in order to go on. In the REPL that is less than on the command line. */
export type NextWords = {
  readonly goOn: string;
  readonly more: string;
  readonly answer: (id: string) => string;
};

/** On the command line. */
export const COMMAND_WORDS: NextWords = {
  goOn: 'savestate continue',
  more: 'savestate continue -n 5',
  answer: (id) => `savestate continue --answer '${id}=...'`,
};

/** In the REPL. */
export const REPL_NEXT_WORDS: NextWords = {
  goOn: 'run',
  more: 'run 5',
  answer: () => 'your next line',
};

/** How a run stopped, in a sentence, and what to do next. */
export function describeStop(result: TeamResult, words: NextWords = COMMAND_WORDS): string {
  switch (result.status) {
    case 'ended':
      return `Ended: ${result.end.detail}${result.end.reason === 'max_rounds' ? ` For more: ${words.more}` : ''}`;
    case 'waiting': {
      const { id, agent, text, choices } = toQuestion(result.request);
      const which = choices.length === 0 ? '' : ` (${choices.join(', ')})`;
      return `Waiting for ${agent}: ${text}${which}\nAnswer with: ${words.answer(id)}`;
    }
    case 'failed':
      return `Failed: ${messageOf(result.error)}\nTry again with: ${words.goOn}`;
    case 'stopped':
      return `Stopped at the last checkpoint. Go on with: ${words.goOn}`;
  }
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

/** What went wrong, in its own words. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
