import type { Step, Steps } from './parse-pattern.ts';

/** Characters that a pattern does not tell apart. */
type CharClass = {
  readonly index: number;
  /** Which tokens they fit. */
  readonly fits: readonly boolean[];
  readonly kind: number;
  /** In UTF-16 code units. */
  readonly width: number;
};

/** What is known at a place of a text from all that comes behind it. */
export type State = {
  /** The steps that take the next character and can reach the end from there. */
  readonly takers: readonly number[];
  /** The kind of the next character. */
  readonly after: number;
  /** By the class of the character before the place. */
  readonly edges: (Edge | undefined)[];
};

type Edge = {
  /** Whether the first step is among them. */
  readonly isStart: boolean;
  /** For each step whether the end can be reached: 1, or 0. */
  readonly leads: Uint8Array;
  /** The state before the character before the place. */
  readonly next: State;
};

/** A place of a text, with its state. */
export type Mark = { readonly at: number; readonly state: State };

/** States are remembered until they take so much memory. */
const MAX_CACHE_BYTES = 1 << 24;

/** Reads texts from the end to the start, and knows at each place which steps of a pattern can reach the pattern's end: an automaton whose states are made when they are met first. */
export class PatternAutomaton {
  readonly #pattern: Steps;
  readonly #isUnicode: boolean;
  /** The steps from which one comes to each step without taking a character. */
  readonly #sources: readonly (readonly number[])[];
  readonly #classes = new Map<number | undefined, CharClass>();
  /** The same for the first characters, because it is faster. */
  readonly #latin: (CharClass | undefined)[] = Array.from({ length: 256 });
  readonly #classesByContent = new Map<string, CharClass>();
  readonly #states = new Map<string, State>();
  #cacheBytes = 0;

  constructor(pattern: Steps, isUnicode: boolean) {
    this.#pattern = pattern;
    this.#isUnicode = isUnicode;
    this.#sources = sourcesOf(pattern.steps);
  }

  /** The end of a text. */
  endOf(text: string): Mark {
    return { at: text.length, state: this.#stateOf([], this.#pattern.kindOf(undefined)) };
  }

  /** Whether the pattern can begin somewhere. */
  hasStart(text: string): boolean {
    let { at, state } = this.endOf(text);
    while (at > 0) {
      const before = this.#latin[text.charCodeAt(at - 1)] ?? this.#classBefore(text, at);
      const { isStart, next } = state.edges[before.index] ?? this.#connect(state, before);
      if (isStart) return true;
      at -= before.width;
      state = next;
    }
    return this.#connect(state, this.#classBefore(text, 0)).isStart;
  }

  /** Visits places from one to the start of the text, or until it is enough. */
  goBack(text: string, from: Mark, isEnough: (mark: Mark, leads: Uint8Array) => boolean): void {
    let { at, state } = from;
    for (;;) {
      const before = this.#classBefore(text, at);
      const { leads, next } = state.edges[before.index] ?? this.#connect(state, before);
      if (isEnough({ at, state }, leads) || at === 0) return;
      at -= before.width;
      state = next;
    }
  }

  #classBefore(text: string, at: number): CharClass {
    const unit = at === 0 ? undefined : text.charCodeAt(at - 1);
    const isPair = this.#isUnicode && unit !== undefined && isLow(unit) && isHigh(text.charCodeAt(at - 2));
    const code = isPair ? text.codePointAt(at - 2) : unit;
    return this.#classes.get(code) ?? this.#classify(code);
  }

  #classify(code: number | undefined): CharClass {
    const { tokens, kindOf } = this.#pattern;
    const char = code === undefined ? undefined : String.fromCodePoint(code);
    const content = {
      fits: tokens.map((token) => char !== undefined && token.test(char)),
      kind: kindOf(char),
      width: char?.length ?? 0,
    };
    const key = JSON.stringify(content);
    const known = this.#classesByContent.get(key) ?? { ...content, index: this.#classesByContent.size };
    this.#classesByContent.set(key, known);
    this.#classes.set(code, known);
    if (code !== undefined && code < this.#latin.length) this.#latin[code] = known;
    return known;
  }

  #stateOf(takers: readonly number[], after: number): State {
    const key = `${after}:${takers.join()}`;
    const state = this.#states.get(key) ?? { takers, after, edges: [] };
    this.#states.set(key, state);
    return state;
  }

  #connect(state: State, before: CharClass): Edge {
    const leads = this.#leadsAt(state, before.kind);
    const takers: number[] = []; // a loop, because a pattern may need this at every place of a text
    for (const [at, step] of this.#pattern.steps.entries())
      if (step.kind === 'one' && before.fits[step.token] && leads[at + 1] === 1) takers.push(at);
    this.#forget(leads.length);
    const edge = { isStart: leads[0] === 1, leads, next: this.#stateOf(takers, before.kind) };
    state.edges[before.index] = edge;
    return edge;
  }

  /** From the end of the pattern, and from what takes the next character, back along all steps that take nothing here. */
  #leadsAt({ takers, after }: State, before: number): Uint8Array {
    const { steps } = this.#pattern;
    const leads = new Uint8Array(steps.length + 1);
    const open = [...takers, steps.length];
    for (let to = open.pop(); to !== undefined; to = open.pop()) {
      if (leads[to] === 1) continue;
      leads[to] = 1;
      for (const from of this.#sources[to] ?? []) {
        const step = steps[from];
        if (step?.kind !== 'place' || step.holds(before, after)) open.push(from);
      }
    }
    return leads;
  }

  #forget(bytes: number): void {
    this.#cacheBytes += bytes;
    if (this.#cacheBytes < MAX_CACHE_BYTES) return;
    this.#states.clear();
    this.#cacheBytes = bytes;
  }
}

function sourcesOf(steps: readonly Step[]): number[][] {
  const sources: number[][] = Array.from({ length: steps.length + 1 }, () => []);
  for (const [at, step] of steps.entries()) {
    if (step.kind === 'one') continue;
    for (const by of step.kind === 'split' ? step.to : [1]) sources[at + by]?.push(at);
  }
  return sources;
}

function isLow(unit: number): boolean {
  return (unit & 0xfc00) === 0xdc00;
}

function isHigh(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}
