import { createInterface } from 'node:readline/promises';
import { InvalidInputError } from '../../core/errors.ts';
import { toPrintable } from './style.ts';
import type { Terminal } from './terminal.ts';

/** What may happen, in one sentence, and how the person agreed to it already. */
export type Consent = { readonly question: string; readonly yes: boolean; readonly signal: AbortSignal };

/** Asks before something is destroyed. Returns false if the person says no; refuses where nobody can be asked. */
export async function confirm(terminal: Terminal, { question, yes, signal }: Consent): Promise<boolean> {
  if (yes) return true;
  if (!terminal.canAsk) {
    throw new InvalidInputError(
      `${question} Nobody can be asked here, so nothing was done. Say --yes to do it, or --dry-run to only look.`,
    );
  }
  return /^y(es)?$/i.test(await askLine(`${question} [y/N] `, signal));
}

/** Reads one line; throws an AbortError if the person presses Ctrl-C instead. */
export async function askLine(question: string, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const stop = new AbortController();
  lines.once('SIGINT', () => stop.abort()); // readline takes Ctrl-C for itself while it asks
  try {
    const answer = await lines.question(toPrintable(question), { signal: AbortSignal.any([signal, stop.signal]) });
    return answer.trim();
  } finally {
    lines.close();
  }
}
