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

const WORDS = new Intl.Segmenter(undefined, { granularity: 'word' });

/** The beginnings of the words of a text: what an agent that is busy with it will speak of. */
export function termsOf(text: string, maxTerms: number): string[] {
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
  return Array.from(WORDS.segment(run), ({ segment }) => segment);
}

/** The last letter is mostly an ending: "tests" and "test" begin alike. Empty for a word that says nothing. */
function beginningOf(word: string): string {
  if (DENSE.test(word)) return word.length < MIN_DENSE_CHARS || GRAMMAR.test(word) ? '' : word.slice(0, MAX_CHARS);
  return word.length < MIN_CHARS ? '' : word.slice(0, Math.min(MAX_CHARS, Math.max(MIN_CHARS, word.length - 1)));
}

/** How many of the terms a text uses. */
export function countTerms(terms: readonly string[], text: string): number {
  const said = text.slice(0, MAX_TEXT_CHARS).toLowerCase();
  return terms.filter((term) => isUsed(term, said)).length;
}

/** In an alphabet a term must begin a word. */
function isUsed(term: string, said: string): boolean {
  let at = said.indexOf(term);
  if (DENSE.test(term)) return at >= 0;
  while (at > 0 && LETTER.test(said.charAt(at - 1))) at = said.indexOf(term, at + 1);
  return at >= 0;
}

const LETTER = /\p{L}/u;

/** Whether a text has letters enough to tell what it is about: five words or so, or ten signs of a dense script. */
export function saysEnough(text: string): boolean {
  return Buffer.byteLength(text.slice(0, MAX_LOOKED_AT).replace(/\P{L}/gu, '')) >= MIN_LETTER_BYTES;
}

const MAX_LOOKED_AT = 200;
const MIN_LETTER_BYTES = 28;
