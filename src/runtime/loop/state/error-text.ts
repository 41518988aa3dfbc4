import { messageOf } from '../../../core/errors.ts';

/** What is kept of an error in states and reports. */
export type ErrorText = { readonly name: string; readonly message: string; readonly code?: string };

/** Errors may quote whole pages; a state keeps the beginning. */
const MAX_MESSAGE_CHARS = 2000;

/** The words of anything that was thrown, whatever it is. */
export function errorText(error: unknown): ErrorText {
  if (!(error instanceof Error)) return { name: 'Error', message: wordsOf(error ?? messageOf(error)) };
  const code: unknown = 'code' in error ? error.code : undefined;
  return { name: wordsOf(error.name), message: wordsOf(error.message), ...(typeof code === 'string' && { code }) };
}

/** Why something was not done: it would have got what stands for a secret. */
export function secretLeftOut(message: string): ErrorText {
  return { name: 'SecretLeftOutError', message };
}

/** An error that says what a recorded one said. */
export function errorOf({ name, message, code }: ErrorText): Error {
  return Object.assign(new Error(message), { name, ...(code !== undefined && { code }) });
}

function wordsOf(value: unknown): string {
  try {
    return String(value).slice(0, MAX_MESSAGE_CHARS);
  } catch {
    return 'Something was thrown that has no words.';
  }
}
