import { InvalidInputError } from '../../core/errors.ts';

/** Reads answers of the form `id=text`. */
export function parseAnswers(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(texts.map(parseAnswer));
}

function parseAnswer(text: string): readonly [id: string, answer: string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new InvalidInputError(`--answer must be id=text; found "${text}".`);
}
