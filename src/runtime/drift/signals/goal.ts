import { z } from 'zod';
import { isFinishing, keysOf, leavesOf, type ReadEvent } from '../step/drift-event.ts';
import { count, signal, text } from '../step/signal.ts';

/** Enough by itself: an agent that had tools and a plan, and learnt nothing, answers from nowhere. */
const UNFOUNDED_NATS = 5;
/** New words that tools must have returned before an answer is believed. */
const MIN_FOUND_WORDS = 40;

/**
 * Speaks when an agent hands in its answer although everything its tools returned held fewer than 40 words that
 * were not already in the task or its own mouth: what it was told to find out, it has made up. Silent for agents that had
 * neither a plan nor tools.
 */
export const unfoundedAnswer = signal({
  kind: 'goal',
  memory: {
    form: z.object({ foundWords: z.number().nonnegative(), hasPlan: z.boolean(), hasActed: z.boolean() }),
    begin: () => ({ foundWords: 0, hasPlan: false, hasActed: false }),
  },
  observe({ event, reading }, state) {
    state.foundWords += reading?.foundWords ?? 0;
    state.hasPlan ||= event.kind === 'plan';
    if (!isFinishing(event)) {
      state.hasActed ||= event.kind === 'call';
      return undefined;
    }
    if (!state.hasPlan || !state.hasActed || state.foundWords >= MIN_FOUND_WORDS) return undefined;
    const reason = `${event.agent} answers, but its tools have told it only ${Math.round(state.foundWords)} words that were not in the task or its own texts.`;
    return { agent: event.agent, nats: UNFOUNDED_NATS, steps: [event.index], reason };
  },
});

/** Finds where a long text says what the goal is. */
const GOAL_SENTENCE =
  /\b(?:goal|objective|mission|aim|purpose)s?\b[^.!?\n]{0,30}?\b(?:is|are)\b:?\s*(?:to\b)?([^.!?\n]{10,300})/i;
/** Where the goal is stated, if anywhere, even in a very long task. */
const MAX_GOAL_CHARS = 100_000;
const MAX_TERMS = 24;
/** Words of a question that are kept, to know an answer by. */
const MAX_ASKED_TERMS = 48;
/** Weight of the newest step in the moving mean: about the last twenty count. */
const WEIGHT = 0.05;
/** Steps before the mean means something. */
const MIN_STEPS = 20;
/** Agents use, step by step, at least this part of the words of the goal that their system prompt states. */
const MIN_STATED_SHARE = 0.16;
/** Of a goal as people write it less need be said: one of six words in every third step or so. */
const MIN_TOLD_SHARE = 0.05;
const MAX_EXPECTED_TERMS = 6;
const SILENT_NATS = 0.5;
const SPOKEN_NATS = -0.5;

const adherence = z.object({
  terms: z.array(text),
  share: z.number(),
  /** Steps that were looked at. */
  messages: count,
  /** Whether the goal was given as such, in whatever words, and not stated in a system prompt. */
  isTold: z.boolean().optional(),
  /** Words of what a person said last: whoever answers that does what it is there for. */
  asked: z.array(text).optional(),
});
type Adherence = z.infer<typeof adherence>;

/** Speaks when the words of the goal fade from what the agents say and do. */
export const goalAdherence = signal({
  kind: 'goal',
  memory: {
    form: adherence,
    begin: ({ goal }) => ({ terms: termsOf(goal ?? '', MAX_TERMS), share: 0, messages: 0, isTold: goal !== undefined }),
  },
  observe({ event, options }, state) {
    if (options.goal === undefined) hearGoal(state, event);
    hearPerson(state, event);
    const work = state.terms.length === 0 ? undefined : workIn(event, state.isTold === true);
    if (work === undefined || !addStep(state, work)) return undefined;
    const { messages, share } = state;
    if (messages < MIN_STEPS) return undefined;
    const minShare = state.isTold === true ? MIN_TOLD_SHARE : MIN_STATED_SHARE;
    const reason = `The last messages and calls use ${Math.round(share * 100)} % of the goal's words (${state.terms.slice(0, 6).join(', ')}).`;
    return { agent: event.agent, nats: share < minShare ? SILENT_NATS : SPOKEN_NATS, steps: [event.index], reason };
  },
});

/** The text of a `goal` event is the goal, or holds the sentence that says it; a system prompt only states it. */
function hearGoal(state: Adherence, { kind, text }: ReadEvent): void {
  const isOpen = state.terms.length === 0 || state.isTold === true;
  if (!isOpen || (kind !== 'goal' && kind !== 'system')) return;
  const whole = text.slice(0, MAX_GOAL_CHARS);
  const sentence = GOAL_SENTENCE.exec(whole)?.[1] ?? (kind === 'goal' ? whole : '');
  const terms = termsOf(sentence, MAX_TERMS);
  if (terms.length === 0) return;
  delete state.asked;
  Object.assign(state, { terms, share: 0, messages: 0, isTold: kind === 'goal' });
}

function hearPerson(state: Adherence, { kind, isAgent, text }: ReadEvent): void {
  if (state.isTold === true && !isAgent && kind === 'message') state.asked = termsOf(text, MAX_ASKED_TERMS);
}

/** Something that may speak of the goal, and whether it says so much that the goal should show in it. */
type Work = { readonly text: string; readonly tells: boolean };

/**
 * What an agent says and does, with the names it uses for that, and what comes back to one whose goal was told. Paths, ids and choices
 * have words of their own, whatever they are for: only prose tells that a call is about something else.
 */
function workIn({ kind, isAgent, name, input, text, isError }: ReadEvent, isTold: boolean): Work | undefined {
  if (kind === 'result') return isTold && !isError ? { text, tells: false } : undefined;
  if (!isAgent || (kind !== 'message' && kind !== 'call')) return undefined;
  if (kind === 'message') return { text, tells: saysEnough(text) };
  const leaves = leavesOf(input);
  const tells = leaves.some(isProse);
  if (!tells && !isTold) return undefined;
  return { text: [name, ...keysOf(input), ...leaves].join(' ').replace(WORD_INSIDE, '$1 '), tells };
}

/** "getOrder" speaks of orders. */
const WORD_INSIDE = /(\p{Ll})(?=\p{Lu})/gu;
const PROSE = /(?:\p{L}[\p{L}'’-]*[,;:.]? ){5}/u;

function isProse(leaf: string): boolean {
  const begun = leaf.slice(0, MAX_LOOKED_AT);
  return saysEnough(leaf) && (PROSE.test(begun) || DENSE.test(begun));
}

/** Whether it says anything about the goal: what is short and has none of its words does not. */
function addStep(state: Adherence, { text, tells }: Work): boolean {
  const share = spokenShare(state, text);
  if (!tells && share === 0) return false;
  state.messages++;
  state.share += Math.max(WEIGHT, 1 / state.messages) * (share - state.share);
  return true;
}

/** How much of the goal a step speaks of, 0 to 1. */
function spokenShare({ terms, isTold, asked = [] }: Adherence, said: string): number {
  const used = countTerms(terms, said);
  if (isTold !== true) return used / terms.length;
  return used === 0 && countTerms(asked, said) > 0 ? 1 : Math.min(1, used / Math.min(terms.length, MAX_EXPECTED_TERMS));
}

/** Shorter words of alphabets are mostly grammar. */
const MIN_CHARS = 4;
/** Words are compared by their beginnings, so that "emission" counts as "emissions". */
const MAX_CHARS = 6;
/** Scripts that are written without spaces, or in syllables: their words are short, and begin anywhere. */
const DENSE = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff]/u;
const MIN_DENSE_CHARS = 2;
/** Words of this script alone are grammar, as "する" is. */
const GRAMMAR = /^\p{Script=Hiragana}+$/u;
/** The longest text that is looked at. */
const MAX_TEXT_CHARS = 4000;

/** Words of four letters and more that any text may use, in the languages that most goals are written in. */
const STOP_WORDS = new Set(
  `about also been before caused could does each every first from have into just like make more most must only other over should
  some such than that their them then there these they this those used using very want were what when where which while will with
  would your aber alle auch dann dass dein deine denn diese dieser dieses durch eine einem einen einer eines haben ihre immer jede
  jeden jeder keine mehr nach nicht noch oder sein seine sich sind sollen über unter werden wird wenn alors aussi autre avec cette
  chaque comme dans depuis donc elle elles encore être leur leurs mais même nous pour quand quel quelle sans selon sont tous tout
  toute toutes très vers votre vous antes cada como cuando debe desde donde entre esta este esto hacia hasta mismo para pero porque
  puede según sino sobre solo también todas todo todos tiene anche ancora come deve dopo dove ogni perché quale quando questa questo
  sempre senza sono tutti tutto ainda apenas depois essa esse isso mais muito onde pela pelo qual toda você andere door deze elke
  geen heeft hebben haar moet naar niet onder voor waar worden wordt zijn zonder`.split(/\s+/),
);

/** Made when the first text needs it: that takes long. */
let words: Intl.Segmenter | undefined;

/** The beginnings of the words of a text: what an agent that is busy with it will speak of. */
function termsOf(text: string, maxTerms: number): string[] {
  const terms = new Set<string>();
  for (const [run] of text
    .slice(0, MAX_TEXT_CHARS)
    .toLowerCase()
    .matchAll(/\p{L}[\p{L}\p{M}]*/gu)) {
    for (const word of DENSE.test(run) ? wordsIn(run) : [run]) {
      if (!STOP_WORDS.has(word)) terms.add(beginningOf(word));
    }
  }
  terms.delete('');
  return [...terms].slice(0, maxTerms);
}

function wordsIn(run: string): string[] {
  words ??= new Intl.Segmenter(undefined, { granularity: 'word' });
  return Array.from(words.segment(run), ({ segment }) => segment);
}

/** The last letter is mostly an ending: "tests" and "test" begin alike. Empty for a word that says nothing. */
function beginningOf(word: string): string {
  if (DENSE.test(word)) return word.length < MIN_DENSE_CHARS || GRAMMAR.test(word) ? '' : word.slice(0, MAX_CHARS);
  return word.length < MIN_CHARS ? '' : word.slice(0, Math.min(MAX_CHARS, Math.max(MIN_CHARS, word.length - 1)));
}

/** How many of the terms a text uses. */
function countTerms(terms: readonly string[], text: string): number {
  const said = text.slice(0, MAX_TEXT_CHARS).toLowerCase();
  return terms.filter((term) => isUsed(term, said)).length;
}

/** In an alphabet a term must begin a word. */
function isUsed(term: string, said: string): boolean {
  let at = said.indexOf(term);
  if (at < 0 || DENSE.test(term)) return at >= 0;
  while (at > 0 && LETTER.test(said.charAt(at - 1))) at = said.indexOf(term, at + 1);
  return at >= 0;
}

const LETTER = /\p{L}/u;

/** Whether a text has letters enough to tell what it is about: five words or so, or ten signs of a dense script. */
function saysEnough(text: string): boolean {
  const begun = text.slice(0, MAX_LOOKED_AT);
  return LATIN_ENOUGH.test(begun) || Buffer.byteLength(begun.replace(/\P{L}/gu, '')) >= MIN_LETTER_BYTES;
}

const MAX_LOOKED_AT = 200;
const MIN_LETTER_BYTES = 28;
/** Tells most texts in a tenth of the time. */
const LATIN_ENOUGH = new RegExp(`^(?:[^a-z]*[a-z]){${MIN_LETTER_BYTES}}`, 'i');
