import { stem } from './stem.ts';

/** Words that say nothing about the matter of an English sentence. */
const STOP_WORDS = new Set(
  `a about after again all also am an and any are aren as at be because been before being both but by can cannot could couldn d did
  didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he her here hers herself him
  himself his how i if in into is isn it its itself just ll m me might more most must my myself no nor not now of off on once only or other
  ought our ours ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them themselves then
  there these they this those through to too under until up us ve very was wasn we were weren what when where which while who whom whose
  why will with won would wouldn you your yours yourself yourselves`.split(/\s+/),
);

const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu;
/** Most texts are plain, and for those the words are found in half the time. */
const PLAIN = /^[\t-~]*$/;
const PLAIN_WORD = /[a-z0-9]+/g;
/** Scripts written without spaces: pairs of characters stand for words. */
const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+$/u;

/** Texts repeat their words, so what most of them become is known already. */
const known = new Map<string, readonly string[]>();
const MAX_KNOWN = 50_000;

/** The terms of a text, in order and with repetitions: words in lower case without stop words, reduced to their stems. */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const word of wordsOf(text)) for (const term of termsOfWord(word)) terms.push(term);
  return terms;
}

/** The words of a text in lower case, stop words and all. */
export function wordsOf(text: string): string[] {
  return PLAIN.test(text)
    ? (text.toLowerCase().match(PLAIN_WORD) ?? [])
    : (text.normalize('NFKC').toLowerCase().match(WORD) ?? []);
}

function pairsOf(word: string): string[] {
  const characters = [...word];
  if (characters.length < 2) return characters;
  return characters.slice(1).map((character, at) => `${characters[at]}${character}`);
}

/** The terms of one of `wordsOf`: none for a stop word, several for a script without spaces. */
export function termsOfWord(word: string): readonly string[] {
  const found = known.get(word);
  if (found !== undefined) return found;
  if (known.size >= MAX_KNOWN) known.clear();
  const terms = STOP_WORDS.has(word) ? [] : UNSPACED.test(word) ? pairsOf(word) : [stem(word)];
  known.set(word, terms);
  return terms;
}

/** How alike two texts are in their terms: 1 the same set, 0 nothing shared. */
export function similarity(first: Iterable<string>, second: Iterable<string>): number {
  const [a, b] = [new Set(first), new Set(second)];
  const shared = [...a].filter((term) => b.has(term)).length;
  const all = a.size + b.size - shared;
  return all === 0 ? 1 : shared / all;
}
