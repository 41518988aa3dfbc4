import { isInterrupt } from '../base/exit-code.ts';
import { askLine } from '../terminal/ask.ts';
import { formatChoices } from './run-text.ts';
import type { TeamQuestion } from './talk.ts';

/** Asks the person at the terminal. An empty line, or Ctrl-C, is no answer: the run then stops and waits. */
export async function askPerson(
  { agent, text, choices }: TeamQuestion,
  signal: AbortSignal = new AbortController().signal,
): Promise<string | undefined> {
  const which = choices.length === 0 ? '' : `\n(${formatChoices(choices)})`;
  try {
    return (await askLine(`\n${agent}: ${text}${which}\n> `, signal)) || undefined;
  } catch (error) {
    if (isInterrupt(error) && !signal.aborted) return undefined;
    throw error;
  }
}
