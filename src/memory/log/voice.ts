import { sentencesOf } from './sentences.ts';

/** Verbs of speaking and of thinking: what follows them is as true as whoever they are said of. */
const SAYS =
  '(?:say|says|said|saying|tell|tells|told|telling|claim(?:s|ed|ing)?|think|thinks|thought|thinking|believ(?:es?|ed|ing)|writes?|wrote|asks?|asked|repl(?:y|ies|ied)|answers?|answered|assumes?|assumed|insists?|insisted|suggests?|suggested|reckons?|guess(?:es|ed)?|mentions?|mentioned|quotes?|quoted|reads?|shout(?:s|ed)?)';
/** What a task is done to is not what the one who sets it says. */
const TASK =
  '(?:translate|rewrite|rephrase|paraphrase|reword|summari[sz]e|proofread|correct|edit|explain|analy[sz]e|classify|spell|parse|quote|repeat|type|print|echo|complete|continue|improve|(?:write|draft|compose|invent)\\s+(?:me\\s+|us\\s+)?(?:a|an|the|another))';
const PLEASE = '(?:(?:please|now|then|also|and|can you|could you|would you|help me)\\s+)*';
const BY_SPEAKER = '(?<!\\b(?:I|we)(?:\\s+\\w+)?\\s)';

/** "Correct, I live in Rome" is an answer. */
const IS_TASK = new RegExp(`^\\W*${PLEASE}${TASK}\\b(?!,)`, 'i');
const OTHERS_SAY = new RegExp(`${BY_SPEAKER}\\b${SAYS}\\b`, 'i');
const IS_SCENARIO = new RegExp(
  `^\\W*${PLEASE}(?:let['’]s\\s+|what if\\s+)?(?:imagine|pretend|suppose|assume|say|what if)\\b(?!,).*?\\b(?:I|we|my|our)\\b`,
  'i',
);

/** Quotations, code, and lines that quote a mail. A bounded search, because an opening mark may have no closing one. */
const QUOTED = [
  /```[\s\S]*?(?:```|$)/g,
  /^[ \t]*>.*$/gm,
  /`[^`\n]{1,400}`/g,
  /["“„«](?:[^"“”»\n]|\n(?!\s*\n)){1,2000}["”“»]/g,
  /(?<![\p{L}\p{N}])['‘](?=\S)(?:[^'’\n]|['’](?=[\p{L}\p{N}])){1,400}['’](?![\p{L}\p{N}])/gu,
];
/** A quotation of so many words is a name or a value, unless it speaks for itself. */
const MAX_VALUE_WORDS = 4;

/** A label, as in "Bob: ..." or "Translate this: ...". */
const LABEL = /([^\n:.!?]{1,80}):(?=\s|$)/g;
const OWN_LABEL =
  /^\W*(?:I\b|we\b|me\W*$|note|nb\b|fyi|btw|by the way|p\.?s\b|update|correction|remember|reminder|important|also|first|second|third|finally|one (?:more )?thing|ok(?:ay)?\b|yes|no\b|well|so\b|listen|look|actually|hi\b|hello|hey)|\babout (?:me|myself|us)\b|\bmy (?:\w+ )?(?:details|profile|preferences?|info(?:rmation)?|facts|answers?|needs|situation|set-?up|background|context)\b/i;

/** Stands for each letter of someone else: no rule finds anything in it. */
const MASK = '_';

/**
 * The words of a text that its writer says as true of the world, with all others masked: quotations, code, words after the name of a
 * speaker or of a task, and made-up scenes. Every place stays where it was.
 */
export function ownWords(text: string): string {
  return maskScenes(maskLabelled(QUOTED.reduce(maskQuotations, text)));
}

function maskQuotations(text: string, pattern: RegExp): string {
  return text.replace(pattern, (quoted) => (isValue(quoted) ? quoted : mask(quoted)));
}

function isValue(quoted: string): boolean {
  const words = quoted.match(/[\p{L}\p{N}'’]+/gu) ?? [];
  return words.length <= MAX_VALUE_WORDS && !/\b(?:I|my|me|we|our)\b/i.test(quoted) && !/^[`>]/.test(quoted.trim());
}

/** A label that ends its line speaks of all that follows, another one of its paragraph. */
function maskLabelled(text: string): string {
  if (!text.includes(':')) return text;
  return maskParts(text, function* () {
    for (const match of text.matchAll(LABEL)) {
      const start = match.index + match[0].length;
      if (isOwn(match[1] ?? '')) continue;
      const isAlone = /^[ \t]*(?:\n|$)/.test(text.slice(start, start + 80));
      yield [start, () => (isAlone ? text.length : paragraphEnd(text, start))];
    }
  });
}

function isOwn(label: string): boolean {
  return OWN_LABEL.test(label) && !OTHERS_SAY.test(label) && !IS_TASK.test(label);
}

/** "Imagine that I live in Rome. I am a cook." */
function maskScenes(text: string): string {
  return maskParts(text, function* () {
    for (const { words, at } of sentencesOf(text))
      if (IS_SCENARIO.test(words)) yield [at, () => paragraphEnd(text, at)];
      else if (IS_TASK.test(words)) yield [at, () => at + words.length];
  });
}

function paragraphEnd(text: string, from: number): number {
  const pattern = /\n[ \t]*\n/g;
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? text.length;
}

/** Masks parts that are named in the order in which they begin; one inside another is none of its own. */
function maskParts(text: string, parts: () => Iterable<readonly [start: number, end: () => number]>): string {
  const masked: string[] = [];
  let done = 0;
  for (const [start, end] of parts()) {
    if (start < done) continue;
    const until = end();
    masked.push(text.slice(done, start), mask(text.slice(start, until)));
    done = until;
  }
  return masked.join('') + text.slice(done);
}

/** The end of a sentence stays one. */
function mask(words: string): string {
  let end = words.length;
  while (end > 0 && '.!?'.includes(words.charAt(end - 1))) end--;
  return words.slice(0, end).replace(/\S/g, MASK) + words.slice(end);
}

const BEFORE =
  "(?:\\s+(?:to\\s+)?(?:me|us|you|him|her|them|everyone|everybody|people|others|my\\s+\\p{L}+|\\p{Lu}[\\p{L}'’]*))?(?:\\s+that)?,?\\s*$";
const REPORTED = new RegExp(
  `(?:${BY_SPEAKER}\\b${SAYS}|\\b(?:was|were|been|being|am|are)\\s+(?:told|asked|informed))${BEFORE}|\\baccording to\\b[^,]{1,40},\\s*$`,
  'iu',
);
const REPORTED_AFTER = /,\s+(?:(?!I\b|we\b)[\p{L}]+\s+)?(?:says|said|wrote|claims|claimed)\b/iu;
/** Words after which nothing is asserted. */
const OPEN =
  /\b(?:if|whether|unless|until|when|once|suppose|supposing|imagine|imagining|pretend(?:ing)?|assum(?:e|ing)|as though|in case|provided|wish|hope|hoping|doubt|den(?:y|ied)|dream(?:ed|t)?|lest|(?:not|n['’]t|never|cannot)\s+(?:true|sure|certain|think|believe|say|claim|mean|know|clear|the case|that)(?:\s+(?:if|whether|why|how|where))?|false|untrue|wrong)(?:\s+that)?\s*$|(?:for (?:example|instance)|\be\.g\.),?\s*$/i;
const CONDITION =
  /^\W*(?:(?:and|but|so|even|only|or)\s+)*(?:if|unless|whether|in case|as long as|were I|had I|should I)\b/i;

/** Whether a sentence speaks of a condition first; what follows holds under it only. */
export function isConditional(sentence: string): boolean {
  return CONDITION.test(sentence);
}

/** Whether what stands at a place of a sentence is asserted by its writer: neither supposed, hoped, denied nor reported. */
export function isAsserted(sentence: string, at: number): boolean {
  const before = sentence.slice(0, at);
  if (isConditional(sentence) && !before.includes(',')) return false;
  return !OPEN.test(before) && !REPORTED.test(before) && !REPORTED_AFTER.test(sentence.slice(at));
}

const NEGATION = /\b(?:not|never|no longer|cannot|neither|nor|hardly)\b|n['’]t\b/i;

/** Whether a sentence says that something is not so. */
export function isNegated(sentence: string): boolean {
  return NEGATION.test(sentence);
}
