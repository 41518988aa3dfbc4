import { createInterface } from 'node:readline/promises';
import { toPrintable } from '../terminal/printable.ts';
import { formatChoices } from './run-text.ts';
import type { TeamQuestion } from './talk.ts';

/** Asks the person at the terminal. An empty line is no answer: the run then stops and waits. */
export async function askPerson(
  { agent, text, choices }: TeamQuestion,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const stop = new AbortController();
  lines.once('SIGINT', () => stop.abort()); // readline takes Ctrl-C for itself while it asks
  const which = choices.length === 0 ? '' : `\n(${formatChoices(choices)})`;
  try {
    const signals = signal === undefined ? [stop.signal] : [signal, stop.signal];
    const question = toPrintable(`\n${agent}: ${text}${which}\n> `);
    const answer = await lines.question(question, { signal: AbortSignal.any(signals) });
    return answer.trim() === '' ? undefined : answer.trim();
  } catch (error) {
    if (stop.signal.aborted && signal?.aborted !== true) return undefined;
    throw error;
  } finally {
    lines.close();
  }
}
