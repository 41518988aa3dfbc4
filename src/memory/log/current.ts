import { similarity, termsOf } from '../text/terms.ts';
import { type FoldedMemory, holdsAt, isExpired } from './fold.ts';
import type { Memories, Since, Taken, Visible } from './scope-log.ts';
import { sentencesOf } from './sentences.ts';
import { isExclusive } from './slots.ts';

/** How much of what was taken from a turn a sentence must share to be where it was said, if nobody noted the place. */
const SAID_FROM = 0.5;

/** Stands where words were left out. */
export const ELLIPSIS = '\u2026';

/**
 * What is visible and holds at a moment: without what expired or was superseded, and without the words of turns that said so. A turn of
 * which nothing else is left is not there at all.
 */
export function currentAt(visible: Visible, nowMs: number): Visible {
  return { ...visible, memories: new CurrentMemories(visible, nowMs) };
}

class CurrentMemories implements Memories {
  readonly #visible: Visible;
  readonly #nowMs: number;
  readonly #cut = new Map<string, FoldedMemory | undefined>();

  constructor(visible: Visible, nowMs: number) {
    this.#visible = visible;
    this.#nowMs = nowMs;
  }

  /** Of all that is visible: what holds differs by a few. */
  get size(): number {
    return this.#visible.memories.size;
  }

  get(id: string): FoldedMemory | undefined {
    const memory = this.#visible.memories.get(id);
    if (memory === undefined || !holdsAt(memory, this.#nowMs)) return undefined;
    if (memory.fields.kind !== 'episode') return this.#isLatest(memory) ? memory : undefined;
    const taken = this.#visible.taken.get(id);
    return taken === undefined ? memory : this.#cutTurn(memory, taken);
  }

  keys(): Iterable<string> {
    return this.#visible.memories.keys();
  }

  *values(): Iterable<FoldedMemory> {
    for (const id of this.#visible.memories.keys()) {
      const memory = this.get(id);
      if (memory !== undefined) yield memory;
    }
  }

  /** Of one subject and slot the latest holds, also if others were learned in other runs. */
  #isLatest(memory: FoldedMemory): boolean {
    const { slot, subject } = memory.fields;
    if (slot === undefined || !isExclusive(slot)) return true;
    const ids = this.#visible.slots.get(slot)?.get(subject) ?? [];
    return ![...ids].some((other) => this.#isLater(other, memory));
  }

  /** Also what was itself replaced, deleted or purged: what it had replaced does not hold again. */
  #isLater(id: string, than: FoldedMemory): boolean {
    const memory = this.#visible.memories.get(id);
    const isIgnored = id === than.id || (memory !== undefined && isExpired(memory.fields, this.#nowMs));
    const other: Since | undefined = isIgnored ? undefined : (memory ?? this.#visible.over.get(id));
    if (other === undefined) return false;
    return (other.saidSinceMs - than.saidSinceMs || other.contentSeq - than.contentSeq) > 0;
  }

  #cutTurn(turn: FoldedMemory, taken: readonly Taken[]): FoldedMemory | undefined {
    if (this.#cut.has(turn.id)) return this.#cut.get(turn.id);
    const [current, outdated] = [new Set<string>(), new Map<string, readonly [number, number]>()];
    for (const one of taken) {
      const isCurrent = this.get(one.id) !== undefined;
      for (const span of placesOf(turn.fields.content, one))
        if (isCurrent) current.add(String(span));
        else outdated.set(String(span), span);
    }
    const spans = [...outdated].flatMap(([key, span]) => (current.has(key) ? [] : [span]));
    const cut = spans.length === 0 ? turn : cutMemory(turn, spans);
    this.#cut.set(turn.id, cut);
    return cut;
  }
}

/** A place in a text. */
export type Span = readonly [start: number, end: number];

/** Where a turn says what was taken from it; nowhere if the turn was corrected since. */
export function placesOf(content: string, { words, span }: Pick<Taken, 'words' | 'span'>): readonly Span[] {
  if (span !== undefined) return content.slice(...span) === words ? [span] : [];
  const terms = termsOf(words);
  return sentencesOf(content)
    .filter((sentence) => similarity(termsOf(sentence.words), terms) >= SAID_FROM)
    .map((sentence) => [sentence.at, sentence.at + sentence.words.length]);
}

function cutMemory(turn: FoldedMemory, spans: readonly Span[]): FoldedMemory | undefined {
  const content = cutWords(turn.fields.content, spans);
  return content === undefined ? undefined : { ...turn, fields: { ...turn.fields, content } };
}

/** Places that overlap as one, in the order of the text. */
export function joinSpans(spans: readonly Span[]): Span[] {
  const joined: Span[] = [];
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    const [from, to] = joined.at(-1) ?? [0, -1];
    if (start > to) joined.push([start, end]);
    else joined[joined.length - 1] = [from, Math.max(to, end)];
  }
  return joined;
}

/** The text with an ellipsis for each of the places; undefined if only little words are left. */
export function cutWords(text: string, spans: readonly Span[]): string | undefined {
  let content = text;
  for (const [start, end] of joinSpans(spans).reverse())
    content = `${content.slice(0, start)}${ELLIPSIS}${content.slice(end)}`;
  return termsOf(content).length === 0 ? undefined : content;
}
