import type { FoldedMemory } from '../log/fold.ts';
import type { Postings, Visible } from '../log/scope-log.ts';
import { sentencesOf } from '../log/sentences.ts';
import type { MemoryFields } from '../storage/memory-record.ts';
import { termsOf } from '../text/terms.ts';
import type { ParsedQuery } from './query.ts';

/** What makes up a score. */
export type ScoreParts = {
  readonly lexical: number;
  readonly vector: number;
  readonly neighbours: number;
  readonly subject: number;
  readonly date: number;
  /** It is in the slot that the question asks for. */
  readonly slot: number;
};

/** A memory with its score. */
export type Ranked = { readonly memory: FoldedMemory; readonly score: number; readonly parts: ScoreParts };

type RankingInput = {
  readonly query: ParsedQuery;
  readonly visible: Visible;
  /** Which memories may be found; absent: all. */
  readonly isWanted?: ((memory: FoldedMemory) => boolean) | undefined;
  readonly postings: Postings;
  /** How near each memory's words are to the question; absent when nothing can tell. */
  readonly cosines?: ReadonlyMap<string, number> | undefined;
  readonly topK: number;
};

/** BM25+ as measured best for turns: length matters little, and a term that is there at all counts. */
const K1 = 1.2;
const B = 0.3;
const DELTA = 0.5;
/** A fixed typical length, so that a memory's score does not depend on the lengths of all others. */
const TYPICAL_TERMS = 15;

/** Of more than this, what is best by words alone is looked at closely, with the turns around it. */
const MIN_CANDIDATES = 100;
const LEXICAL_WEIGHT = 0.4;
const VECTOR_WEIGHT = 0.6;
const SUBJECT_BONUS = 0.3;
const DATE_BONUS = 0.2;
/** As much as the best words: what is in the slot is the answer, however it is worded. */
const SLOT_BONUS = 1;
/** What was said around a turn counts for it, but less: most of all the question it answers. */
const FROM_QUESTION = 0.8;
const FROM_PREVIOUS = 0.5;
const FROM_SECOND_PREVIOUS = 0.3;
const FROM_NEXT = 0.3;
const FROM_SECOND_NEXT = 0.15;
/** Who only asks knows nothing; what they ask counts for the answer. */
const FROM_ASKING = 0.5;
/** People speak of an event on the day or soon after. */
const SPOKEN_OF_WITHIN_MS = 10 * 86_400_000;

/** Ranks what is visible by how well it answers a question, best first; equal ones newest first. */
export function rank(input: RankingInput): Ranked[] {
  const { visible, isWanted } = input;
  const asked = inAskedSlots(input);
  const lexical = new LexicalScores(input);
  const near = new VectorScores(input);
  const found: Found[] = [];
  for (const [memory, known] of withNeighbours([...lexical.candidates(), ...near.candidates(), ...asked], visible)) {
    if (isWanted?.(memory) === false) continue;
    const context = known ?? contextOf(memory, visible);
    found.push({ memory, isAsked: asked.has(memory.id), words: lexical.score(context), vector: near.score(context) });
  }
  const most = Math.max(0, ...found.map(({ words }) => words.all)) || 1;
  const weight = input.cosines === undefined ? 1 : LEXICAL_WEIGHT;
  return found
    .map((one) => {
      const parts = partsOf(one, { query: input.query, scale: weight / most });
      return { memory: one.memory, parts, score: Object.values(parts).reduce((sum, part) => sum + part) };
    })
    .sort((a, b) => b.score - a.score || b.memory.contentSeq - a.memory.contentSeq);
}

/** A score of a memory by its own words, and with those around it. */
type ContextScore = { readonly own: number; readonly all: number };

type Found = {
  readonly memory: FoldedMemory;
  readonly isAsked: boolean;
  readonly words: ContextScore;
  readonly vector: ContextScore;
};

/** What is in the slots that the question asks for; it need not share a word with it. */
function inAskedSlots({ query, visible }: RankingInput): Set<string> {
  const slots = [...visible.slots].flatMap(([slot, bySubject]) => (query.asksFor(slot) ? [...bySubject] : []));
  return new Set(slots.flatMap(([subject, ids]) => (query.isAbout(subject) ? [...ids] : [])));
}

/** A memory and what stands around it, each with how much it counts; the memory itself first. */
type Context = readonly (readonly [memory: FoldedMemory, weight: number])[];

function contextOf(memory: FoldedMemory, visible: Visible): Context {
  const { memories } = visible;
  const context: [FoldedMemory, number][] = [[memory, 1]];
  const previous = memories.get(memory.fields.previousId ?? '');
  if (previous !== undefined) {
    context.push([previous, previous.fields.content.includes('?') ? FROM_QUESTION : FROM_PREVIOUS]);
    const second = memories.get(previous.fields.previousId ?? '');
    if (second !== undefined) context.push([second, FROM_SECOND_PREVIOUS]);
  }
  for (const next of followersOf(memory.id, visible)) {
    context.push([next, FROM_NEXT]);
    for (const second of followersOf(next.id, visible)) context.push([second, FROM_SECOND_NEXT]);
  }
  return context;
}

function followersOf(id: string, { memories, followers }: Visible): FoldedMemory[] {
  const found: FoldedMemory[] = [];
  for (const next of followers.get(id) ?? []) {
    const memory = memories.get(next);
    if (memory !== undefined) found.push(memory);
  }
  return found;
}

/** Memories with what stands around them, and those around them, whose context is not known yet. */
function withNeighbours(ids: Iterable<string>, visible: Visible): Map<FoldedMemory, Context | undefined> {
  const reached = new Map<FoldedMemory, Context | undefined>();
  for (const id of ids) {
    const memory = visible.memories.get(id);
    if (memory === undefined || reached.get(memory) !== undefined) continue;
    const context = contextOf(memory, visible);
    for (const [near] of context) if (!reached.has(near)) reached.set(near, undefined);
    reached.set(memory, context);
  }
  return reached;
}

/** BM25+ of memories, where each term counts once: where it is said best, in the memory or around it. */
class LexicalScores {
  readonly #input: RankingInput;
  /** The place and the weight of each term of the question. */
  readonly #terms = new Map<string, { readonly at: number; readonly weight: number }>();
  readonly #rough = new Map<number, number>();
  readonly #byId = new Map<string, Float64Array>();

  constructor(input: RankingInput) {
    this.#input = input;
    const { bySeq, memories } = input.visible;
    for (const term of input.query.terms) {
      const seqs = (input.postings.get(term) ?? []).filter((seq) => bySeq.has(seq));
      const weight = Math.log(1 + (memories.size - seqs.length + 0.5) / (seqs.length + 0.5));
      this.#terms.set(term, { at: this.#terms.size, weight });
      for (const seq of seqs) this.#rough.set(seq, (this.#rough.get(seq) ?? 0) + weight);
    }
  }

  /** Postings decide who is looked at, exact scores who wins. */
  candidates(): string[] {
    const { visible, isWanted, topK } = this.#input;
    if (isWanted !== undefined)
      for (const seq of this.#rough.keys()) {
        const memory = visible.memories.get(visible.bySeq.get(seq) ?? '');
        if (memory === undefined || !isWanted(memory)) this.#rough.delete(seq);
      }
    return highest(this.#rough, Math.max(topK, MIN_CANDIDATES)).flatMap((seq) => visible.bySeq.get(seq) ?? []);
  }

  score(context: Context): ContextScore {
    const [[memory] = []] = context;
    const own = memory === undefined ? 0 : this.#scoresOf(memory).reduce((sum, score) => sum + score, 0);
    const best = new Float64Array(this.#terms.size);
    for (const [near, weight] of context) {
      const scores = this.#scoresOf(near);
      for (let at = 0; at < best.length; at++) best[at] = Math.max(best[at] ?? 0, weight * (scores[at] ?? 0));
    }
    return { own, all: best.reduce((sum, score) => sum + score, 0) };
  }

  #scoresOf({ id, fields }: FoldedMemory): Float64Array {
    const known = this.#byId.get(id);
    if (known !== undefined) return known;
    const terms = knownTermsOf(fields);
    const counts = new Float64Array(this.#terms.size);
    for (const term of terms) {
      const at = this.#terms.get(term)?.at;
      if (at !== undefined) counts[at] = (counts[at] ?? 0) + 1;
    }
    const length = K1 * (1 - B + (B * terms.length) / TYPICAL_TERMS);
    for (const { at, weight } of this.#terms.values()) {
      const count = counts[at] ?? 0;
      if (count > 0) counts[at] = weight * (DELTA + (count * (K1 + 1)) / (count + length));
    }
    this.#byId.set(id, counts);
    return counts;
  }
}

/** Cosines, from 0 for the farthest to 1 for the nearest memory; the best of a memory and what stands around it counts. */
class VectorScores {
  readonly #input: RankingInput;
  readonly #low: number;
  readonly #width: number;

  constructor(input: RankingInput) {
    this.#input = input;
    let [low, high] = [Number.POSITIVE_INFINITY, 0];
    for (const score of input.cosines?.values() ?? []) [low, high] = [Math.min(low, score), Math.max(high, score)];
    this.#low = high > low ? low : 0;
    this.#width = high > low ? high - low : 1;
  }

  candidates(): string[] {
    const { cosines, topK } = this.#input;
    const nearest = [...(cosines ?? [])].sort((a, b) => b[1] - a[1]);
    return nearest.slice(0, Math.max(topK, MIN_CANDIDATES)).map(([id]) => id);
  }

  score(context: Context): ContextScore {
    if (this.#input.cosines === undefined) return { own: 0, all: 0 };
    const scores = context.map(([{ id }, weight]) => weight * this.#nearness(id));
    return { own: scores[0] ?? 0, all: Math.max(...scores) };
  }

  #nearness(id: string): number {
    const cosine = this.#input.cosines?.get(id);
    return cosine === undefined ? 0 : Math.max(0, (cosine - this.#low) / this.#width);
  }
}

/** The keys of the highest values; of equal ones the newest. Sorts plain numbers, because there may be thousands. */
function highest(values: ReadonlyMap<number, number>, count: number): number[] {
  if (values.size <= count) return [...values.keys()];
  const least = Float64Array.from(values.values()).sort()[values.size - count] ?? 0;
  const above = [...values.keys()].filter((key) => (values.get(key) ?? 0) > least);
  const equal = [...values.keys()].filter((key) => values.get(key) === least).sort((a, b) => b - a);
  return [...above, ...equal.slice(0, count - above.length)];
}

/** Fields never change, and the same memories come up again and again. */
const termsByFields = new WeakMap<MemoryFields, readonly string[]>();

function knownTermsOf(fields: MemoryFields): readonly string[] {
  const known = termsByFields.get(fields);
  if (known !== undefined) return known;
  const terms = termsOf(fields.content);
  termsByFields.set(fields, terms);
  return terms;
}

function partsOf(
  { memory: { fields }, isAsked, words, vector }: Found,
  { query, scale }: { query: ParsedQuery; scale: number },
): ScoreParts {
  const share = fields.kind === 'episode' && onlyAsks(fields.content) ? FROM_ASKING : 1;
  const { observedAtMs } = fields;
  const isSpokenOf = query.dates.some(
    ({ fromMs, toMs }) => observedAtMs >= fromMs && observedAtMs < toMs + SPOKEN_OF_WITHIN_MS,
  );
  const [forWords, forVector] = [share * scale, share * VECTOR_WEIGHT];
  return {
    lexical: forWords * words.own,
    vector: forVector * vector.own,
    neighbours: forWords * (words.all - words.own) + forVector * (vector.all - vector.own),
    subject: query.subjects.has(fields.subject) ? share * SUBJECT_BONUS : 0,
    date: isSpokenOf ? share * DATE_BONUS : 0,
    slot: isAsked ? SLOT_BONUS : 0,
  };
}

/** A sentence that is a question from its first word on; "I sold the car, and you?" tells something. */
const QUESTION =
  /^(?:(?:and|but|so|or|hey|hi|hello|well|please)\b\W*)*(?:who|whom|whose|what|which|when|where|why|how|do|does|did|is|are|am|was|were|can|could|shall|should|will|would|may|might|must|have|has|had)\b.*\?$/is;

function onlyAsks(content: string): boolean {
  return content.endsWith('?') && sentencesOf(content).every(({ words }) => QUESTION.test(words));
}
