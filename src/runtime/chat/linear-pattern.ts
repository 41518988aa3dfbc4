import { InvalidInputError } from '../../core/errors.ts';

/** One step of a pattern; jumps are relative. */
type Step =
  | { readonly kind: 'one'; readonly accepts: (char: string) => boolean }
  | { readonly kind: 'place'; readonly holds: (chars: readonly string[], at: number) => boolean }
  /** Goes on at each of these, the first before the second. */
  | { readonly kind: 'split'; readonly to: readonly number[] };

type Thread = { readonly step: number; readonly start: number };
type Span = { readonly start: number; readonly end: number };
/** What was found, and how far the text was read to know it. */
type Finding = { readonly span: Span | undefined; readonly read: number };

/** A repetition is written out: `a{3,5}` is three steps and two that may be left out. */
const MAX_STEPS = 1000;

/** What `remove` may read beyond its finds, in texts: `a(.*b)?` looks for a `b` to the end after every `a`. */
const MAX_TEXTS_READ_AHEAD = 8;

/** Everything that a pattern is made of; what is none of the rest is one character, or a class of them. */
const TOKENS =
  /\(\?(?:<?[=!]|[a-z-]+:)|\\(?:[1-9]|k<)|\((?:\?:|\?<[^=!>][^>]*>)?|[)|^$]|\\[bB]|(?:[*+?]|\{\d+(?:,\d*)?\})\??|\[(?:\\.|[^\]\\])*\]|\\(?:u\{\w+\}|u\w{4}|x\w\w|c[A-Za-z]|[pP]\{[^}]*\}|.)|./gs;

/** A regular expression that is matched in time linear in the text, whatever it is: it looks at all ways to match at once, and never goes back. */
export class LinearPattern {
  readonly #steps: readonly Step[];
  readonly #isUnicode: boolean;

  /** Throws if it is no regular expression, or one that cannot be matched like this. */
  constructor({ source, flags = '' }: { readonly source: string; readonly flags?: string }) {
    this.#isUnicode = flags.includes('u');
    this.#steps = new Parser(source, flags).parse();
  }

  /** The first place that fits. */
  find(text: string): string | undefined {
    const chars = this.#split(text);
    const { span } = this.#search(chars, 0, false);
    return span && chars.slice(span.start, span.end).join('');
  }

  /** The text without every place that fits. Where it takes too much to know the longest, the shortest one is taken out. */
  remove(text: string): string {
    const chars = this.#split(text);
    let [kept, from, ahead] = ['', 0, 0];
    for (;;) {
      const { span, read } = this.#search(chars, from, ahead > MAX_TEXTS_READ_AHEAD * chars.length);
      if (span === undefined) break;
      kept += chars.slice(from, span.start).join('');
      from = span.end;
      ahead += read - span.end;
      if (span.end === span.start) break; // a pattern that fits nothing is refused where it is given
    }
    return kept + chars.slice(from).join('');
  }

  #split(text: string): string[] {
    return this.#isUnicode ? [...text] : text.split('');
  }

  /** Ways that began earlier, or are preferred, go first; one that arrives ends those after it. */
  #search(chars: readonly string[], from: number, isHasty: boolean): Finding {
    let span: Span | undefined;
    let threads: Thread[] = [];
    const seen = new Int32Array(this.#steps.length + 1).fill(-1);
    let at = from;
    for (; at <= chars.length; at++) {
      const ready: Thread[] = [];
      for (const thread of threads) this.#follow(thread, { chars, at, seen, ready });
      if (span === undefined) this.#follow({ step: 0, start: at }, { chars, at, seen, ready });
      const arrived = ready.findIndex(({ step }) => step === this.#steps.length);
      const first = ready[arrived];
      if (first !== undefined) span = { start: first.start, end: at };
      const ahead = arrived < 0 ? ready : ready.slice(0, arrived);
      threads = ahead.flatMap((thread) => this.#read(thread, chars[at]));
      if (span !== undefined && (threads.length === 0 || isHasty)) break;
    }
    return { span, read: at };
  }

  #read({ step, start }: Thread, char: string | undefined): Thread[] {
    const one = this.#steps[step];
    const isNext = char !== undefined && one?.kind === 'one' && one.accepts(char);
    return isNext ? [{ step: step + 1, start }] : [];
  }

  /** Notes all steps that are reached without a character. */
  #follow(first: Thread, { chars, at, seen, ready }: Reaching): void {
    const { start } = first;
    const open = [first.step];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      if (seen[step] === at) continue;
      seen[step] = at;
      const here = this.#steps[step];
      if (here === undefined || here.kind === 'one') ready.push({ step, start });
      else if (here.kind === 'split') open.push(...here.to.map((by) => (step as number) + by).reverse());
      else if (here.holds(chars, at)) open.push(step + 1);
    }
  }
}

type Reaching = {
  readonly chars: readonly string[];
  readonly at: number;
  /** Where each step was reached last: once for each character is enough. */
  readonly seen: Int32Array;
  readonly ready: Thread[];
};

/** Reads the source of a pattern, which is known to be one. */
const DETAILS = { option: 'end.pattern' };

class Parser {
  readonly #name: string;
  readonly #flags: string;
  readonly #tokens: string[];

  constructor(source: string, flags: string) {
    this.#name = `The end pattern /${source}/${flags}`;
    try {
      new RegExp(source, flags);
    } catch (cause) {
      throw new InvalidInputError(`${this.#name} is no regular expression.`, { cause, details: DETAILS });
    }
    if (/[vy]/.test(flags)) throw this.#refuse(`the flag "${/[vy]/.exec(flags)?.[0]}"`);
    this.#flags = flags;
    this.#tokens = (source.match(new RegExp(TOKENS, flags.includes('u') ? 'gsu' : 'gs')) ?? []).reverse();
  }

  #refuse(what: string): InvalidInputError {
    return new InvalidInputError(
      `${this.#name} has ${what}, which cannot be matched in a time that grows with the message only. Leave it out, or use a predicate.`,
      { details: DETAILS },
    );
  }

  parse(): Step[] {
    const first = this.#sequence();
    if (this.#tokens.at(-1) !== '|') return first;
    this.#tokens.pop();
    const second = this.parse();
    return [
      { kind: 'split', to: [1, first.length + 2] },
      ...first,
      { kind: 'split', to: [second.length + 1] },
      ...second,
    ];
  }

  #sequence(): Step[] {
    const steps: Step[] = [];
    while (!['|', ')', undefined].includes(this.#tokens.at(-1))) {
      for (const step of this.#repeat(this.#atom(this.#tokens.pop() ?? ''))) steps.push(step);
      if (steps.length > MAX_STEPS) throw this.#refuse('too many repetitions');
    }
    return steps;
  }

  #atom(token: string): Step[] {
    if (/^\\(?:[1-9]|k<)/.test(token)) throw this.#refuse('a reference to a group');
    if (/^\(\?(?!:|<[^=!])/.test(token)) throw this.#refuse('a lookaround or a modifier');
    if (token.startsWith('(')) {
      const inside = this.parse();
      this.#tokens.pop();
      return inside;
    }
    const holds = PLACES[token]?.(this.#flags.includes('m'));
    return [holds === undefined ? this.#one(token) : { kind: 'place', holds }];
  }

  #one(token: string): Step {
    const pattern = new RegExp(`^(?:${token})$`, this.#flags.replace(/[gmd]/g, ''));
    const known = new Map<string, boolean>();
    const accepts = (char: string): boolean => {
      const is = known.get(char) ?? pattern.test(char);
      known.set(char, is);
      return is;
    };
    return { kind: 'one', accepts };
  }

  #repeat(steps: Step[]): Step[] {
    const [, sign, least, comma, most, lazy] = REPEAT.exec(this.#tokens.at(-1) ?? '') ?? [];
    if (sign === undefined) return steps;
    this.#tokens.pop();
    const [min, max] = COUNTS[sign] ?? [
      Number(least),
      comma === undefined ? Number(least) : Number(most || Number.POSITIVE_INFINITY),
    ];
    if (steps.length * (max === Number.POSITIVE_INFINITY ? min + 1 : max) > MAX_STEPS)
      throw this.#refuse('too many repetitions');
    const choose = (to: readonly [number, number]): Step => ({
      kind: 'split',
      to: lazy === '?' ? to.toReversed() : to,
    });
    const needed = Array.from({ length: min }, () => steps).flat();
    if (max === Number.POSITIVE_INFINITY) {
      const again: Step = { kind: 'split', to: [-steps.length - 1] };
      return [...needed, choose([1, steps.length + 2]), ...steps, again];
    }
    const maybe = [choose([1, steps.length + 1]), ...steps];
    return [...needed, ...Array.from({ length: max - min }, () => maybe).flat()];
  }
}

const REPEAT = /^([*+?]|\{(\d+)(,(\d*))?\})(\?)?$/;
const COUNTS: Readonly<Record<string, readonly [number, number]>> = {
  '*': [0, Number.POSITIVE_INFINITY],
  '+': [1, Number.POSITIVE_INFINITY],
  '?': [0, 1],
};

type Place = (chars: readonly string[], at: number) => boolean;

/** Where a pattern stands without a character of its own. */
const PLACES: Readonly<Record<string, (isByLine: boolean) => Place>> = {
  '^': (isByLine) => (chars, at) => at === 0 || (isByLine && isBreak(chars[at - 1])),
  $: (isByLine) => (chars, at) => at === chars.length || (isByLine && isBreak(chars[at])),
  '\\b': () => (chars, at) => isWord(chars[at - 1]) !== isWord(chars[at]),
  '\\B': () => (chars, at) => isWord(chars[at - 1]) === isWord(chars[at]),
};

function isBreak(char = ''): boolean {
  return /^[\n\r\u2028\u2029]$/.test(char);
}

function isWord(char = ''): boolean {
  return /^\w$/.test(char);
}
