import { InvalidInputError } from '../../core/errors.ts';

/** What a person wrote after the name of a command, checked as it is asked for. */
export class CommandInput {
  readonly words: readonly string[];
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(words: readonly string[], options: Readonly<Record<string, unknown>>) {
    this.words = words;
    this.#options = options;
  }

  /** The word at this place; undefined if there are fewer. */
  word(at: number): string | undefined {
    return this.words[at];
  }

  /** The word at this place, which must be there. */
  need(at: number, what: string): string {
    const word = this.words[at];
    if (word === undefined) throw new InvalidInputError(`Say ${what}.`);
    return word;
  }

  /** What the first word names, among the actions of a command. */
  action<Act>(command: string, actions: Readonly<Record<string, Act>>): Act {
    const names = Object.keys(actions);
    const name = this.need(0, `what to do: ${names.slice(0, -1).join(', ')} or ${names.at(-1)}`);
    const found = Object.hasOwn(actions, name) ? actions[name] : undefined;
    if (found !== undefined) return found;
    throw new InvalidInputError(`${command} has no action "${name}". It has: ${names.join(', ')}.`);
  }

  flag(name: string): boolean {
    return this.#options[name] === true;
  }

  text(name: string): string | undefined {
    const value = this.#options[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** An option that is one of a few words. */
  oneOf<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const text = this.text(name);
    const found = words.find((word) => word === text);
    if (found !== undefined || text === undefined) return found;
    throw new InvalidInputError(`${flagOf(name)} must be ${words.join(', ')}; found "${text}".`);
  }

  /** Whether an option was given, whatever its form. */
  has(name: string): boolean {
    const isFlag = name !== 'input'; // true without --no-input
    return this.text(name) !== undefined || this.texts(name).length > 0 || (isFlag && this.flag(name));
  }

  /** An option that was given more than once, in order. */
  texts(name: string): readonly string[] {
    const value = this.#options[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  /** An option that is a whole number, 0 or more. */
  count(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : parseCount(text, flagOf(name));
  }
}

/** An option as it is typed: `--keep-last`, `-n`. */
export function flagOf(name: string): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `${words.length === 1 ? '-' : '--'}${words}`;
}

/** Reads a whole number, 0 or more. */
export function parseCount(text: string, what: string): number {
  const count = Number(text);
  if (text.trim() === '' || !Number.isSafeInteger(count) || count < 0)
    throw new InvalidInputError(`${what} must be a whole number, 0 or more; found "${text}".`);
  return count;
}
