import { InvalidInputError } from '../errors.ts';

/** A regular expression of JavaScript: its source and flags. */
export type PatternSource = { readonly source: string; readonly flags?: string };

/** One step of a pattern; jumps are relative. */
export type Step =
  /** Takes a character that fits this token. */
  | { readonly kind: 'one'; readonly token: number }
  /** Takes nothing, between characters of these kinds. */
  | { readonly kind: 'place'; readonly holds: Condition }
  /** Goes on at one of these, rather at an earlier one. */
  | { readonly kind: 'split'; readonly to: readonly number[] }
  /** Begins what may be left out, and is so many steps long. */
  | { readonly kind: 'enter'; readonly size: number }
  /** Ends it: if nothing was taken since, it has to be left out. */
  | { readonly kind: 'leave'; readonly size: number };

type Condition = (before: number, after: number) => boolean;

/** A pattern as steps, in their order; it fits where the end is reached. */
export type Steps = {
  readonly steps: readonly Step[];
  /** What single characters must be like. */
  readonly tokens: readonly RegExp[];
  /** What a place knows of the character beside it; of none beyond the text. */
  readonly kindOf: (char: string | undefined) => number;
};

/** A repetition is written out: `a{3,5}` is three steps and two that may be left out. */
const MAX_STEPS = 10_000;
const MAX_DEPTH = 500;

const HEX = '[0-9a-fA-F]';
const MARKS = String.raw`\(\?(?:<?[=!]|[a-z-]+:)|\((?:\?:|\?<[^=!>][^>]*>)?|[)|^$]|\\[bB]|(?:[*+?]|\{\d+(?:,\d*)?\})\??`;
/** A `\c` without a letter behind it is a backslash; the c stands for itself. */
const BACKSLASH = '\\';
const ESCAPES = String.raw`\\[1-9k]|\\c[A-Za-z]|\\(?=c)|\\x${HEX}{2}`;
const IN_UNICODE = String.raw`\\u[dD][89abAB]${HEX}{2}\\u[dD][c-fC-F]${HEX}{2}|\\u\{${HEX}+\}|\\[pP]\{[^}]*\}`;
const CHARACTERS = String.raw`\\u${HEX}{4}|\\0[0-7]{0,2}|\[(?:\\.|[^\]\\])*\]|\\.|.`;
/** Everything that a pattern is made of, with and without the flag `u`. */
const TOKENS = {
  unicode: new RegExp(`${MARKS}|${ESCAPES}|${IN_UNICODE}|${CHARACTERS}`, 'gsu'),
  plain: new RegExp(`${MARKS}|${ESCAPES}|${CHARACTERS}`, 'gs'),
};

/** Reads a pattern, which an option gives. Throws if it is no regular expression, or one that cannot be matched in linear time. */
export function parsePattern(pattern: PatternSource, option: string): Steps {
  return new Parser(pattern, option).parse();
}

class Parser {
  readonly #option: string;
  readonly #pattern: Required<PatternSource>;
  /** What is left to read, the next token last. */
  readonly #left: string[];
  readonly #tokens: string[] = [];
  #depth = 0;

  constructor({ source, flags = '' }: PatternSource, option: string) {
    this.#option = option;
    this.#pattern = { source, flags };
    try {
      new RegExp(source, flags);
    } catch (cause) {
      throw this.#fail('is not a regular expression.', cause);
    }
    for (const flag of ['v', 'y']) if (flags.includes(flag)) throw this.#refuse(`the flag "${flag}"`, 'Leave it out.');
    this.#left = (source.match(flags.includes('u') ? TOKENS.unicode : TOKENS.plain) ?? []).reverse();
  }

  parse(): Steps {
    const steps = this.#ways();
    const flags = this.#pattern.flags.replaceAll(/[gmd]/g, '');
    const tokens = this.#tokens.map((token) => new RegExp(`^(?:${token})$`, flags));
    const word = new RegExp('\\w', flags);
    const hasPlaces = steps.some(({ kind }) => kind === 'place');
    return { steps, tokens, kindOf: (char) => (hasPlaces ? kindOf(char, word) : 0) };
  }

  #fail(what: string, cause?: unknown): InvalidInputError {
    const details = { option: this.#option };
    return new InvalidInputError(`The pattern /${this.#pattern.source}/ ${what}`, { cause, details });
  }

  #refuse(what: string, instead: string): InvalidInputError {
    return this.#fail(`has ${what}, which cannot be matched in linear time. ${instead}`);
  }

  /** Ways beside each other: a choice of their beginnings, and behind each a jump to the end. */
  #ways(): Step[] {
    const ways = [this.#sequence()];
    while (this.#left.at(-1) === '|') {
      this.#left.pop();
      ways.push(this.#sequence());
    }
    const inside = ways.flat();
    if (ways.length === 1) return inside;
    const size = this.#checkSize(1 + inside.length + ways.length);
    const steps: Step[] = [];
    const to = ways.map((way) => {
      const start = 1 + steps.length;
      for (const step of way) steps.push(step);
      steps.push({ kind: 'split', to: [size - start - way.length] });
      return start;
    });
    return [{ kind: 'split', to }, ...steps];
  }

  #checkSize(steps: number): number {
    if (steps > MAX_STEPS) throw this.#refuse('too many repetitions', 'Use smaller counts, or * or +.');
    return steps;
  }

  #sequence(): Step[] {
    const steps: Step[] = [];
    for (let token = this.#left.pop(); token !== undefined; token = this.#left.pop()) {
      if (token === '|' || token === ')') {
        this.#left.push(token);
        break;
      }
      for (const step of this.#repeat(this.#atom(token))) steps.push(step);
      this.#checkSize(steps.length);
    }
    return steps;
  }

  #atom(token: string): Step[] {
    if (/^\\[1-9k]/.test(token))
      throw this.#refuse('a reference to a group', 'Write out what it repeats: (?:aa|bb) for ([ab])\\1.');
    if (/^\(\?<?[=!]/.test(token))
      throw this.#refuse('a lookaround', 'Write what stands around the match into the pattern, or use \\b, ^ or $.');
    if (/^\(\?[a-z-]+:/.test(token)) throw this.#refuse('a modifier', 'Write the letters out: [aA] for (?i:a).');
    if (token.startsWith('(')) return this.#group();
    const holds = PLACES[token]?.(this.#pattern.flags.includes('m'));
    return [holds === undefined ? { kind: 'one', token: this.#indexOf(token) } : { kind: 'place', holds }];
  }

  #group(): Step[] {
    if (++this.#depth > MAX_DEPTH) throw this.#refuse('too many groups inside each other', 'Use fewer.');
    const inside = this.#ways();
    this.#left.pop();
    this.#depth--;
    return inside;
  }

  #indexOf(token: string): number {
    const written = token === BACKSLASH ? '\\\\' : token;
    const at = this.#tokens.indexOf(written);
    return at < 0 ? this.#tokens.push(written) - 1 : at;
  }

  #repeat(steps: Step[]): Step[] {
    const [, sign, least, comma, most, lazy] = REPEAT.exec(this.#left.at(-1) ?? '') ?? [];
    if (sign === undefined) return steps;
    this.#left.pop();
    const [min, max] = COUNTS[sign] ?? [Number(least), Number(comma === undefined ? least : most || 'Infinity')];
    this.#checkSize((steps.length + 3) * (max === Number.POSITIVE_INFINITY ? min + 1 : max));
    const needed = Array.from({ length: min }, () => steps).flat();
    const once = optional(steps);
    const size = once.length;
    const choose = (to: readonly number[]): Step => ({ kind: 'split', to: lazy === '?' ? to.toReversed() : to });
    if (max === Number.POSITIVE_INFINITY)
      return [...needed, choose([1, size + 2]), ...once, { kind: 'split', to: [-size - 1] }];
    const maybe = [choose([1, size + 1]), ...once];
    return [...needed, ...Array.from({ length: max - min }, () => maybe).flat()];
  }
}

function optional(steps: readonly Step[]): readonly Step[] {
  if (steps.every(({ kind }) => kind === 'one') && steps.length > 0) return steps; // always takes something
  const size = steps.length + 1;
  return [{ kind: 'enter', size }, ...steps, { kind: 'leave', size }];
}

const REPEAT = /^([*+?]|\{(\d+)(,(\d*))?\})(\?)?$/;
const COUNTS: Readonly<Record<string, readonly [number, number]>> = {
  '*': [0, Number.POSITIVE_INFINITY],
  '+': [1, Number.POSITIVE_INFINITY],
  '?': [0, 1],
};

const EDGE = 1;
const BREAK = 2;
const WORD = 4;

function kindOf(char: string | undefined, word: RegExp): number {
  if (char === undefined) return EDGE;
  if (/[\n\r\u2028\u2029]/.test(char)) return BREAK;
  return word.test(char) ? WORD : 0;
}

const PLACES: Readonly<Record<string, (isByLine: boolean) => Condition>> = {
  '^': (isByLine) => (before) => before === EDGE || (isByLine && before === BREAK),
  $: (isByLine) => (_, after) => after === EDGE || (isByLine && after === BREAK),
  '\\b': () => (before, after) => (before === WORD) !== (after === WORD),
  '\\B': () => (before, after) => (before === WORD) === (after === WORD),
};
