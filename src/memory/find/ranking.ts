import type { FoldedMemory } from '../log/fold.ts';
import type { Visible } from '../log/scope-log.ts';
import type { MemoryFields } from '../storage/memory-record.ts';
import type { DateRange } from '../text/dates.ts';
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

/** What is known about a question before scoring. */
type RankingInput = {
  readonly query: ParsedQuery;
  readonly visible: Visible;
  /** Which memories may be found. */
  readonly isWanted: (memory: FoldedMemory) => boolean;
  /** For each term the events that have it. */
  readonly postings: ReadonlyMap<string, readonly number[]>;
  /** How near each memory's words are to the question; absent when nothing can tell. */
  readonly cosines?: ReadonlyMap<string, number> | undefined;
};

/** BM25+ as measured best for turns: length matters little, and a term that is there at all counts. */
const K1 = 1.2;
const B = 0.3;
const DELTA = 0.5;
/** A fixed typical length, so that a memory's score does not depend on the lengths of all others. */
const TYPICAL_TERMS = 15;

const CANDIDATES = 300;
const LEXICAL_WEIGHT = 0.4;
const VECTOR_WEIGHT = 0.6;
/** Sharing one common word says little; this sets it apart from sharing several rare ones. */
const EMPHASIS = 1.5;
const SUBJECT_BONUS = 0.3;
const DATE_BONUS = 0.2;
/** As much as the best words: what is in the slot is the answer, however it is worded. */
const SLOT_BONUS = 1;
/** An answer follows its question, so a turn inherits more from the one before it than from the one after it. */
const FROM_PREVIOUS = 0.3;
const FROM_NEXT = 0.1;
/** People speak of an event on the day or soon after. */
const SPOKEN_OF_WITHIN_MS = 10 * 86_400_000;

/** Ranks what is visible by how well it answers a question, best first; equal ones newest first. */
export function rank(input: RankingInput): Ranked[] {
  const base = baseScores(input);
  const asked = inAskedSlots(input);
  const reached = withNeighbours([...base.keys(), ...asked], input.visible);
  const ranked: Ranked[] = [];
  for (const id of reached) {
    const memory = input.visible.memories.get(id);
    if (memory === undefined || !input.isWanted(memory)) continue;
    const parts = { ...partsOf(memory, { input, base }), slot: asked.has(id) ? SLOT_BONUS : 0 };
    ranked.push({ memory, parts, score: sumOf(parts) });
  }
  return ranked.sort((a, b) => b.score - a.score || b.memory.contentSeq - a.memory.contentSeq);
}

/** What is in the slots that the question asks for; it need not share a word with it. */
function inAskedSlots({ query, visible }: RankingInput): Set<string> {
  const slots = [...visible.slots].flatMap(([slot, bySubject]) => (query.asksFor(slot) ? [...bySubject] : []));
  return new Set(slots.flatMap(([subject, ids]) => (query.isAbout(subject) ? [...ids] : [])));
}

type BaseScore = { readonly lexical: number; readonly vector: number };

/** Words and vectors, each from 0 to 1, weighted. Without vectors words count alone. */
function baseScores(input: RankingInput): Map<string, BaseScore> {
  const { cosines } = input;
  const lexical = emphasise(normalise(lexicalScores(input), 0));
  if (cosines === undefined) return new Map([...lexical].map(([id, score]) => [id, { lexical: score, vector: 0 }]));
  const near = normalise(cosines, undefined);
  const nearest = [...near].sort((a, b) => b[1] - a[1]).slice(0, CANDIDATES);
  const ids = new Set([...lexical.keys(), ...nearest.map(([id]) => id)]);
  return new Map(
    [...ids].map((id) => [
      id,
      { lexical: LEXICAL_WEIGHT * (lexical.get(id) ?? 0), vector: VECTOR_WEIGHT * (near.get(id) ?? 0) },
    ]),
  );
}

/** Postings decide who is looked at, exact scores who wins. */
function lexicalScores({ query, visible, isWanted, postings }: RankingInput): Map<string, number> {
  const weights = new Map<string, number>();
  const rough = new Map<number, number>();
  for (const term of query.terms) {
    const seqs = (postings.get(term) ?? []).filter((seq) => visible.bySeq.has(seq));
    const weight = Math.log(1 + (visible.memories.size - seqs.length + 0.5) / (seqs.length + 0.5));
    weights.set(term, weight);
    for (const seq of seqs) rough.set(seq, (rough.get(seq) ?? 0) + weight);
  }
  const scores = new Map<string, number>();
  for (const seq of highest(rough, CANDIDATES)) {
    const memory = visible.memories.get(visible.bySeq.get(seq) ?? '');
    if (memory !== undefined && (isWanted(memory) || memory.fields.kind === 'episode'))
      scores.set(memory.id, scoreTerms(memory, weights));
  }
  return scores;
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
  const known = termsByFields.get(fields) ?? termsOf(fields.content);
  termsByFields.set(fields, known);
  return known;
}

function scoreTerms({ fields }: FoldedMemory, weights: ReadonlyMap<string, number>): number {
  const terms = knownTermsOf(fields);
  const counts = new Map<string, number>();
  for (const term of terms) if (weights.has(term)) counts.set(term, (counts.get(term) ?? 0) + 1);
  const length = 1 - B + (B * terms.length) / TYPICAL_TERMS;
  let score = 0;
  for (const [term, count] of counts)
    score += (weights.get(term) ?? 0) * (DELTA + (count * (K1 + 1)) / (count + K1 * length));
  return score;
}

function normalise(scores: ReadonlyMap<string, number>, least: number | undefined): Map<string, number> {
  let [low, high] = [least ?? Number.POSITIVE_INFINITY, 0];
  for (const score of scores.values()) {
    if (score > high) high = score;
    if (least === undefined && score < low) low = score;
  }
  const width = high - low;
  return new Map([...scores].map(([id, score]) => [id, width > 0 ? (score - low) / width : Math.max(0, score)]));
}

function emphasise(scores: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...scores].map(([id, score]) => [id, score ** EMPHASIS]));
}

function withNeighbours(ids: Iterable<string>, { memories, followers }: Visible): Set<string> {
  const reached = new Set<string>();
  for (const id of ids) {
    reached.add(id);
    const previousId = memories.get(id)?.fields.previousId;
    if (previousId !== undefined) reached.add(previousId);
    for (const next of followers.get(id) ?? []) reached.add(next);
  }
  return reached;
}

function partsOf(
  { id, fields }: FoldedMemory,
  { input, base }: { input: RankingInput; base: ReadonlyMap<string, BaseScore> },
): Omit<ScoreParts, 'slot'> {
  const { query, visible } = input;
  const baseOf = (other: string | undefined) => {
    const score = other === undefined ? undefined : base.get(other);
    return score === undefined ? 0 : score.lexical + score.vector;
  };
  const next = Math.max(0, ...(visible.followers.get(id) ?? []).map(baseOf));
  return {
    lexical: base.get(id)?.lexical ?? 0,
    vector: base.get(id)?.vector ?? 0,
    neighbours: FROM_PREVIOUS * baseOf(fields.previousId) + FROM_NEXT * next,
    subject: query.subjects.has(fields.subject) ? SUBJECT_BONUS : 0,
    date: query.dates.some((range) => speaksOf(fields.observedAtMs, range)) ? DATE_BONUS : 0,
  };
}

function speaksOf(observedAtMs: number, { fromMs, toMs }: DateRange): boolean {
  return observedAtMs >= fromMs && observedAtMs < toMs + SPOKEN_OF_WITHIN_MS;
}

function sumOf({ lexical, vector, neighbours, subject, date, slot }: ScoreParts): number {
  return lexical + vector + neighbours + subject + date + slot;
}
