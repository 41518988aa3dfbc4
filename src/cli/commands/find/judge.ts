import { InvalidInputError } from '../../../core/errors.ts';
import type { Judge } from '../../../runtime/repair/trial.ts';
import type { Context } from '../../base/context.ts';
import { askCommand, STOP } from './ask-command.ts';

/** How runs are judged: by their last words, or by a command. */
export type JudgeWords = { readonly text: string | undefined; readonly command: string | undefined };

/** The judge that was asked for. */
export function createJudge(context: Context, { text, command }: JudgeWords): Judge {
  if ((text === undefined) === (command === undefined))
    throw new InvalidInputError('Say how runs are judged: --judge-text <regex>, or --judge-command <command>.');
  return text === undefined ? judgeByCommand(context, command ?? '') : judgeByText(text);
}

function judgeByText(source: string): Judge {
  let pattern: RegExp;
  try {
    pattern = new RegExp(source);
  } catch (cause) {
    throw new InvalidInputError(`--judge-text is not a regular expression: ${source}`, { cause });
  }
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
