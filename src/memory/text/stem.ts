/** Pairs of an ending or a word and what takes its place. */
function pairs(text: string): [string, string][] {
  return text.split(/\s+/).map((pair) => pair.split(':') as [string, string]);
}

/** Endings of the Porter algorithm, longest first where one ends another. */
const STEP_2 =
  pairs(`ational:ate tional:tion enci:ence anci:ance izer:ize abli:able alli:al entli:ent eli:e ousli:ous ization:ize ation:ate
  ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble`);
const STEP_3 = pairs('icate:ic ative: alize:al iciti:ic ical:ic ful: ness:');
const STEP_4 = /^(.+?)(ement|ance|ence|able|ible|ment|ant|ent|ism|ate|iti|ous|ive|ize|al|er|ic|ou|(?<=[st])ion)$/;

const VOWEL = '[aeiouy]';
const MEASURE = /[aeiouy]+[^aeiouy]+/g;
const HAS_VOWEL = new RegExp(VOWEL);
/** Consonant, vowel, consonant other than w, x, y: such a short stem keeps its final e. */
const IS_SHORT = /^[^aeiou][^aeiouy]*[aeiouy][^aeiouwxy]$/;
const DOUBLE = /([^aeiouylsz])\1$/;

/** Words that the rules would tear apart from their other forms. */
const IRREGULAR = new Map(
  pairs(`went:go gone:go goes:go bought:buy made:make took:take taken:take gave:give given:give got:get saw:see seen:see met:meet
  said:say told:tell found:find felt:feel thought:think began:begin begun:begin wrote:write written:write won:win ran:run
  kids:child kid:child children:child taught:teach chose:choos chosen:choos spoke:speak spoken:speak sold:sell kept:keep
  left:leav lost:lose read:read drew:draw drawn:draw ate:eat eaten:eat grew:grow grown:grow knew:know known:know built:build
  men:man women:woman people:person`),
);

/** How many vowel-consonant pairs a stem has; the rules ask for it. */
function measure(stem: string): number {
  return stem.replace(/^[^aeiouy]+/, '').match(MEASURE)?.length ?? 0;
}

/** The stem of an English word in lower case (Porter's algorithm, with irregular forms); other words stay as they are. */
export function stem(word: string): string {
  const irregular = IRREGULAR.get(word);
  if (irregular !== undefined) return irregular;
  if (word.length < 3 || !/^[a-z]+$/.test(word)) return word;
  return dropFinalE(dropEnding(replaceEnding(replaceEnding(turnFinalY(dropPast(dropPlural(word))), STEP_2), STEP_3)));
}

function dropPlural(word: string): string {
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2);
  return word.endsWith('s') && !word.endsWith('ss') ? word.slice(0, -1) : word;
}

function dropPast(word: string): string {
  if (word.endsWith('eed')) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const ending = /(?:ed|ing)$/.exec(word)?.[0];
  if (ending === undefined) return word;
  const rest = word.slice(0, -ending.length);
  if (!HAS_VOWEL.test(rest)) return word;
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (DOUBLE.test(rest)) return rest.slice(0, -1);
  return measure(rest) === 1 && IS_SHORT.test(rest) ? `${rest}e` : rest;
}

function turnFinalY(word: string): string {
  return word.endsWith('y') && HAS_VOWEL.test(word.slice(0, -1)) ? `${word.slice(0, -1)}i` : word;
}

function replaceEnding(word: string, endings: readonly (readonly [string, string])[]): string {
  const found = endings.find(([ending]) => word.endsWith(ending));
  if (found === undefined) return word;
  const rest = word.slice(0, -found[0].length);
  return measure(rest) > 0 ? rest + found[1] : word;
}

function dropEnding(word: string): string {
  const rest = STEP_4.exec(word)?.[1];
  return rest !== undefined && measure(rest) > 1 ? rest : word;
}

function dropFinalE(word: string): string {
  const shortened = word.endsWith('e') ? word.slice(0, -1) : word;
  const isDropped =
    shortened !== word && (measure(shortened) > 1 || (measure(shortened) === 1 && !IS_SHORT.test(shortened)));
  const result = isDropped ? shortened : word;
  return result.endsWith('ll') && measure(result) > 1 ? result.slice(0, -1) : result;
}
