import { type PatternSource, parsePattern, type Step } from './parse-pattern.ts';
import { type Mark, PatternAutomaton } from './pattern-automaton.ts';

/** A part of a text. */
export type Span = { readonly start: number; readonly end: number };

/**
 * A regular expression that finds what JavaScript finds, in time linear in the text. It reads the text backwards first, and knows then at each place which steps of the
 * pattern can reach its end. So, going forwards, it takes the preferred one of these and never has to come back.
 */
export class LinearPattern {
  readonly #steps: readonly Step[];
  readonly #automaton: PatternAutomaton;
  readonly #isUnicode: boolean;

  /** Errors name the option that gave it. Throws if it is no regular expression, or one that cannot be matched in linear time. */
  constructor(pattern: PatternSource, option: string) {
    const parsed = parsePattern(pattern, option);
    this.#isUnicode = pattern.flags?.includes('u') === true;
    this.#steps = parsed.steps;
    this.#automaton = new PatternAutomaton(parsed, this.#isUnicode);
  }

  /** Whether it fits anywhere. */
  test(text: string): boolean {
    return this.#automaton.hasStart(text);
  }

  /** The first part that fits. */
  find(text: string): Span | undefined {
    return this.findAll(text).next().value;
  }

  /** The text with something else in place of every part that fits. */
  replace(text: string, by: string): string {
    let [replaced, from] = ['', 0];
    for (const { start, end } of this.findAll(text)) {
      replaced += text.slice(from, start) + by;
      from = end;
    }
    return replaced + text.slice(from);
  }

  /** Every part that fits, from left to right. */
  *findAll(text: string): Generator<Span, undefined> {
    const outlook = new Outlook(this.#automaton, text);
    for (let start = 0; start <= text.length; ) {
      const isHere = outlook.at(start)[0] === 1;
      const end = isHere ? this.#follow(text, start, outlook) : start;
      if (isHere) yield { start, end };
      start = end > start ? end : start + this.#widthAt(text, start);
    }
    return undefined;
  }

  #widthAt(text: string, at: number): number {
    return this.#isUnicode && (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }

  #follow(text: string, start: number, outlook: Outlook): number {
    let [step, at] = [this.#settle(0, outlook.at(start)), start];
    while (step < this.#steps.length) {
      at += this.#widthAt(text, at);
      step = this.#settle(step + 1, outlook.at(at));
    }
    return at;
  }

  /** The preferred step of those that take a character next, or the end. There is one, since the first leads to the end. */
  #settle(first: number, leads: Uint8Array): number {
    if (this.#steps[first]?.kind === 'one') return first;
    const tried = new Set<number>();
    const open: Way[] = [{ at: first, inside: OUTSIDE }];
    for (let way = open.pop(); way !== undefined; way = open.pop()) {
      const key = way.at * this.#steps.length + way.inside.from;
      if (leads[way.at] === 0 || tried.has(key)) continue;
      tried.add(key);
      const step = this.#steps[way.at];
      if (step === undefined || step.kind === 'one') return way.at;
      open.push(...goOn(way, step));
    }
    return this.#steps.length;
  }
}

/** A step that is reached without taking a character, and the outermost repetition that was entered on the way. */
type Way = { readonly at: number; readonly inside: { readonly from: number; readonly to: number } };

const OUTSIDE = { from: -1, to: -1 };

/** The steps behind a step, the preferred one last. */
function goOn({ at, inside }: Way, step: Exclude<Step, { kind: 'one' }>): Way[] {
  const around = at > inside.from && at <= inside.to ? inside : OUTSIDE;
  if (step.kind === 'split') return step.to.map((by) => ({ at: at + by, inside: around })).reverse();
  if (step.kind === 'enter' && around === OUTSIDE) return [{ at: at + 1, inside: { from: at, to: at + step.size } }];
  if (step.kind === 'leave' && around !== OUTSIDE && around.from <= at - step.size) return [];
  return [{ at: at + 1, inside: around }];
}

/** How much of a text is remembered at once, in UTF-16 code units. */
const BLOCK_CHARS = 1 << 12;

const NOTHING = new Uint8Array(1);

/** Which steps lead to the end, at each place of a text; asked for from left to right. The text is read backwards once as a whole, and then again block by block. */
class Outlook {
  readonly #automaton: PatternAutomaton;
  readonly #text: string;
  /** The ends of the blocks, that of the next block last. */
  readonly #ends: Mark[];
  #block: Uint8Array[] = [];
  #from = 0;

  constructor(automaton: PatternAutomaton, text: string) {
    this.#automaton = automaton;
    this.#text = text;
    const last = automaton.endOf(text);
    const ends = [last];
    let due = last.at - BLOCK_CHARS;
    automaton.goBack(text, last, (mark) => {
      if (mark.at > due) return false;
      ends.push(mark);
      due -= BLOCK_CHARS;
      return false;
    });
    this.#ends = ends;
  }

  at(place: number): Uint8Array {
    if (place >= this.#from + this.#block.length) this.#load(place);
    return this.#block[place - this.#from] ?? NOTHING;
  }

  #load(from: number): void {
    this.#from = from;
    this.#block = [];
    const end = this.#ends.pop();
    if (end === undefined) return;
    this.#automaton.goBack(this.#text, end, ({ at }, leads) => {
      this.#block[at - from] = leads;
      return at <= from;
    });
  }
}
