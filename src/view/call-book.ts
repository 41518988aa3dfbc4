import { digestText } from '../core/tree/chunk.ts';
import { type MessageCall, type MessageResult, type ReadMessage, readParts } from './messages.ts';

/** A message, and the digests of its calls and results. */
type Digested = ReadMessage & { readonly called: readonly string[]; readonly answered: readonly string[] };

/** States share their messages, and nobody changes them: each is read once. */
const known = new WeakMap<object, Digested>();

/** The calls of a transcript: what answered each, wherever that stands, and which are alike. */
export class CallBook {
  readonly #messages: readonly Digested[];
  /** The messages with the same call and the same result, by both. */
  readonly #alike = new Map<string, number[]>();

  constructor(transcript: readonly unknown[]) {
    this.#messages = transcript.map(digest);
    for (const [index, { calls }] of this.#messages.entries())
      for (const place of calls.keys()) {
        const key = this.#keyOf(index, place);
        if (key === undefined) continue;
        const before = this.#alike.get(key);
        if (before === undefined) this.#alike.set(key, [index]);
        else before.push(index);
      }
  }

  /** The first message with the same call and the same result, and how many have it; nothing if that is the only one, or the first. */
  alike(index: number, place: number): { readonly sameAs?: number; readonly alike?: number } {
    const all = this.#alike.get(this.#keyOf(index, place) ?? '') ?? [];
    const [first = index] = all;
    return first < index ? { sameAs: first, alike: all.length } : {};
  }

  /** What the calls of a message were answered in the messages of tools that follow it. */
  later(index: number): readonly MessageResult[] {
    const { calls = [], results = [] } = this.#messages[index] ?? {};
    const open = calls.filter(({ id }) => id !== undefined && !results.some((result) => result.id === id));
    return open.flatMap((call) => this.#findAnswer(index, call)?.result ?? []);
  }

  /** The message whose calls this one answers and does nothing else. */
  answers(index: number): number | undefined {
    let before = index;
    while (isAnswer(this.#messages[before])) before--;
    const { calls = [] } = this.#messages[before] ?? {};
    const isOf = this.#messages[index]?.results.every(({ id }) =>
      calls.some((call) => id !== undefined && call.id === id),
    );
    return before < index && isOf === true ? before : undefined;
  }

  #keyOf(index: number, place: number): string | undefined {
    const { calls = [], results = [], called = [], answered = [] } = this.#messages[index] ?? {};
    const own = results.findIndex(({ id }) => id !== undefined && id === calls[place]?.id);
    const answer = own >= 0 ? answered[own] : this.#findAnswer(index, calls[place])?.digest;
    return answer === undefined ? undefined : `${called[place]} ${answer}`;
  }

  #findAnswer(index: number, call: MessageCall | undefined) {
    if (call?.id === undefined) return undefined;
    for (let at = index + 1; isAnswer(this.#messages[at]); at++) {
      const { results = [], answered = [] } = this.#messages[at] ?? {};
      const place = results.findIndex(({ id }) => id === call.id);
      if (place >= 0) return { result: results[place], digest: answered[place] };
    }
    return undefined;
  }
}

/** Whether a message is nothing but what tools returned. */
function isAnswer(message: ReadMessage | undefined): boolean {
  return message !== undefined && message.results.length > 0 && message.calls.length === 0 && message.text === '';
}

function digest(raw: unknown): Digested {
  const found = typeof raw === 'object' && raw !== null ? known.get(raw) : undefined;
  if (found !== undefined) return found;
  const read = readParts(raw);
  const digested = {
    ...read,
    called: read.calls.map(({ name, input }) => digestOf([name, input])),
    answered: read.results.map(({ output }) => digestOf(output)),
  };
  if (typeof raw === 'object' && raw !== null) known.set(raw, digested);
  return digested;
}

function digestOf(value: unknown): string {
  return digestText(JSON.stringify(value) ?? '');
}
