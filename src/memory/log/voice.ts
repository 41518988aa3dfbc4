import { sentencesOf } from './sentences.ts';

/*
 * Whose words are they, and are they meant? `ownWords` masks what the writer does not say as their own; `isAsserted` tells whether the rest
 * is meant. What may end an older fact must be said plainly (`isPlain`): there only known openings count, so that what nobody thought of
 * stays in the turn and replaces nothing.
 */

/** Verbs of speaking and of thinking: what follows them is as true as whoever they are said of. */
const SAYS =
  '(?:say|says|said|saying|tell|tells|told|telling|claim(?:s|ed|ing)?|think|thinks|thought|thinking|believ(?:es?|ed|ing)|writes?|wrote|asks?|asked|repl(?:y|ies|ied)|answers?|answered|assumes?|assumed|insists?|insisted|suggests?|suggested|reckons?|guess(?:es|ed)?|mentions?|mentioned|quotes?|quoted|reads?|shout(?:s|ed)?|text(?:s|ed)|announce[sd]?|sends?|sent)';
const PLEASE =
  "(?:(?:please|now|then|also|and|can you|could you|would you|will you|help me|I(?:['’]d like| want| need| would like) you to|let['’]s)\\s+)*";
const BY_SPEAKER = '(?<!\\b(?:I|we)(?:\\s+\\w+|\\s+(?:want(?:ed)?|need(?:ed)?|have|had) to)?\\s)';
const OTHERS_SAY = new RegExp(`${BY_SPEAKER}\\b${SAYS}\\b`, 'i');

/** Work on a text: which words of a message are that text cannot be told, unless it is quoted or stands in the request itself. */
const IS_TEXT_WORK = new RegExp(
  `^\\W*${PLEASE}(?:translate|rewrite|rephrase|paraphrase|reword|summari[sz]e|proofread|correct|edit|fix|tl;?dr|shorten|polish|improve|analy[sz]e|classify|spell|parse|quote|repeat|type|print|echo|complete|(?:reply|respond) to|answer (?:this|that|the|my))\\b(?!,)`,
  'i',
);
/** "Summarize the news" has a matter of its own; "summarize this" has not. */
const POINTS =
  /^\W*(?:in)?to \p{Lu}|^\W*$|\b(?:this|that|these|those|it|following|above|below|text|grammar|spelling|wording|sentences?|paragraph|message|e?-?mail|letter|notes?|essay|article|post|cv|bio|transcript|conversation|review|speech|draft|words|lines?)\b/iu;
/** Something is made up from here on. */
const IS_MADE_UP = new RegExp(
  `^\\W*${PLEASE}(?:what if\\b|(?:imagine|pretend|suppose|assume|say|picture|act|answer as|continue|role-?play|play|make believe|make up|invent|write|draft|compose|tell (?:me |us )?(?:a|an|the|another)|give (?:me|us) (?:a|an) (?:\\w+ )?(?:story|poem|scene))\\b(?!,))`,
  'i',
);
const IS_JOKE = /\b(?:kidding|joking|april fools?)\b|\bjk\b/i;

/** Quotations, code, and lines that quote a mail. A bounded search, because an opening mark may have no closing one. */
const QUOTED = [
  /```[\s\S]*?(?:```|$)/g,
  /^[ \t]*>.*$/gm,
  /`[^`\n]{1,400}`/g,
  /["“„«](?:[^"“”„»«\n]|\n(?!\s*\n)){1,2000}["”“»]/g,
  /(?<![\p{L}\p{N}])['‘](?=\S)(?:[^'’\n]|['’](?=[\p{L}\p{N}])){1,400}['’](?![\p{L}\p{N}])/gu,
  /(?<![\p{L}\p{N}.!?])["“„«](?=\S)[^"“”„»«]*$/gu,
];
/** A quotation of so many words is a name or a value, unless it speaks for itself. */
const MAX_VALUE_WORDS = 4;

/** A label, as in "Bob: ..." or "Translate this: ...". */
const LABEL = /([^\n:.!?]{1,80}):\**(?=\s|$)/g;
const OWN_LABEL =
  /^\W*(?:I\b|we\b|me\W*$|note|nb\b|fyi|btw|by the way|p\.?s\b|(?:good|great|bad|sad) news\b|(?:\w+ )?update|correction|remember|reminder|important|also|first|second|third|finally|one (?:more )?thing|ok(?:ay)?\b|yes|no\b|well|so\b|listen|look|actually|hi\b|hello|hey)|\babout (?:me|myself|us)\b|\bmy (?:\w+ )?(?:details|profile|preferences?|info(?:rmation)?|facts|answers?|needs|situation|set-?up|background|context)\b/i;

/** The lines that a mail, a letter or a copied chat begins with: all that follows is someone else's. */
const PASTED =
  /^[\s*_#=-]{0,20}(?:(?:from|to|subject|sent|cc|date)\W*:\**\s|forwarded message|original message|dear\b[^\n]{0,60}[,:]?\s*$|[^\n:]{1,40}\d{1,2}:\d{2}\W*(?:[ap]m\W*)?$|(?:here(?:['’]s| is| are)|this is|below is)\b(?!.*\b(?:my|about me)\b)[^\n.!?]*$)/im;
/** A letter that is signed is someone's letter, whoever it greets. */
const SIGNED =
  /^[ \t]*(?:(?:best|kind|warm|many) )?(?:regards|wishes|best|cheers|sincerely|yours|thanks|love)\b[^\n]{0,20}\n\s*\p{Lu}[^\n.!?]{0,40}$/imu;

/** Stands for each letter of someone else: no rule finds anything in it. */
const MASK = '_';

/**
 * The words of a text that its writer says as true of the world, with all others masked: quotations, code, pasted mail, words after the name
 * of a speaker or of a task, and what is made up. Every place stays where it was.
 */
export function ownWords(text: string): string {
  if (IS_JOKE.test(text) || SIGNED.test(text)) return mask(text);
  const pasted = PASTED.exec(text)?.index ?? text.length;
  const own = QUOTED.reduce(maskQuotations, text.slice(0, pasted)) + mask(text.slice(pasted));
  return maskRequests(maskLabelled(own));
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
  return OWN_LABEL.test(label) && !OTHERS_SAY.test(label) && !IS_TEXT_WORK.test(label) && !IS_MADE_UP.test(label);
}

/** "Translate this. I live in Rome." "Imagine that I live in Rome. I am a cook." */
function maskRequests(text: string): string {
  const sentences = sentencesOf(text);
  if (sentences.some(({ words }) => isWorkOnRest(words))) return mask(text);
  return maskParts(text, function* () {
    for (const { words, at } of sentences)
      if (IS_MADE_UP.test(words)) yield [at, () => text.length];
      else if (IS_TEXT_WORK.test(words)) yield [at, () => at + words.length];
  });
}

function isWorkOnRest(sentence: string): boolean {
  const work = IS_TEXT_WORK.exec(sentence);
  if (work === null) return false;
  const object = sentence.slice(work[0].length);
  return POINTS.test(object) && !object.includes(MASK) && !/\bI\b|\bmy name\b/.test(object);
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
/** In a clause with one of these before it nothing is asserted. */
const DOUBT =
  /\b(?:not|never|no (?:way|one)|nobody|cannot|if|whether|unless|until|would|could|might|maybe|perhaps|where|why|how|what|who|which|when|once|supposing|imagin\w+|pretend\w*|assum\w+|as though|in case|provided|wish|hop(?:e|ing)|doubt|den(?:y|ied)|dream\w*|lest|false|untrue|wrong|for (?:example|instance)|hypothetically|theory)\b|n['’]t\b|\be\.g\.|\b(?:do|did|am|are|was|were|have|had|should|can|will)\s*$/i;
const CONDITION =
  /^\W*(?:(?:and|but|so|even|only|or)\s+)*(?:if|unless|whether|in case|as long as|were I|had I|should I)\b/i;
const LAST_CLAUSE = /^.*(?:[,;]|\b(?:and|but|so|because)\b)/is;

/** Whether what stands at a place of a sentence is asserted by its writer: neither supposed, hoped, denied, asked nor reported. */
export function isAsserted(sentence: string, at: number): boolean {
  const before = sentence.slice(0, at);
  if (CONDITION.test(sentence) && !before.includes(',')) return false;
  if (REPORTED.test(before) || REPORTED_AFTER.test(sentence.slice(at)) || /\b(?:example|instance),\s*$/i.test(before))
    return false;
  return !DOUBT.test(before.replace(LAST_CLAUSE, ''));
}

export const DAYS =
  '(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|week|weekend|month|year|night|spring|summer|autumn|fall|winter)';
export const MONTHS = 'january|february|march|april|may|june|july|august|september|october|november|december';
/** What may stand before something that is said plainly: greetings, little words, reminders, times and reasons. */
const PLAIN_OPENING = new RegExp(
  `^(?:[\\s,;:.!*•–—-]|\\d+[.)]|\\b(?:hi|hello|hey|dear|oh|ah|hmm|um|well|so|ok(?:ay)?|yes|yeah|yep|no|nope|thanks|thank you|sure|great|correct|right|exactly|sorry|wait|hold on|I mean|scratch that|please|and|but|also|then|now|actually|currently|finally|recently|lately|nowadays|anyway|today|yesterday|honestly|btw|fyi|nb|ps|(?:(?:good|great|bad|sad|quick|small|short) )?(?:news|update|note)(?: (?:on|about) (?:my|our) \\p{L}+)?|correction|reminder|funny|sadly|luckily|fortunately|unfortunately|because|though|although|the truth is|I (?:should|must|have to|want(?:ed)? to) (?:tell you|let you know|mention)|in fact|in short|to be clear|for (?:the record|context|your information)|by the way|just so you know|just to let you know|as (?:I (?:said|told you|mentioned)|you know)|(?:you|everyone) (?:should |must )?knows?|know|remember|keep in mind|do(?:n['’]t| not) forget|I(?:['’]ve| have)? (?:just |already )?(?:told|said|mentioned)(?: to)?(?: \\p{L}+)?|that|about me|as of|(?:since|from)(?: (?:early |late )?(?:${MONTHS}))?|(?:last|this|early this|late last) ${DAYS}|on ${DAYS}|(?:(?:early|late|back) )?in (?:(?:${MONTHS})(?: \\d{4})?|\\d{4})|(?:a|an|one|two|three|four|five|six|seven|eight|nine|ten|\\d+) (?:days?|weeks?|months?|years?) ago|(?:after|since|because of|due to|thanks to) (?:my|our|the|a|an) (?:\\p{L}+ ?){1,3}|after (?:[\\p{L}\\d]+ ){1,3}(?:in|at|with) \\p{L}+)\\b)*$`,
  'iu',
);
/** Bounds the ways in which an opening can be put together. */
const MAX_OPENING_CHARS = 80;
/** What takes back what was said before it in the same clause, or dates it to a time that is over. */
const UNPLAIN =
  /\b(?:if|unless|according to|allegedly|supposedly|apparently|hypothetically|or so|not really|as a joke|when I was|back then|at the time|in theory|says?|said|claims?|claimed|thinks?|I (?:doubt|wish|hope)|maybe|perhaps|imagine|pretend)\b|\bas an? (?:child|kid|student|teenager|teen|boy|girl)\b|(?<!\b(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten) )\b(?:years?|decades?|ages|long) ago\b|,\s*(?:right|correct|huh|eh|no|(?:do|did|have|are|am|is)(?:n['’]t)? (?:I|it)(?: not)?)\W*$/i;
const IN_FICTION =
  /\bin (?:the|this|that|my|our|an?|his|her|their|your) (?:[\w-]+ ){0,2}(?:story|tale|novel|book|film|movie|game|dreams?|scenario|role-?play|fantasy|script|play|poem|song|example|simulation|fiction|universe|scene|video)\b(?! \p{Ll}+ (?:industry|department|business))/iu;
/** After it something else is said. */
const CONJUNCTION = /[;:]|,?\s\b(?:and|but|so|because|though|although)\b/gi;

/** Whether what stands at a place of a sentence is said so plainly that it may replace what was said before. */
export function isPlain(sentence: string, at: number): boolean {
  const clause = Math.max(0, ...[...sentence.slice(0, at).matchAll(CONJUNCTION)].map((match) => match.index));
  const [before, opening, rest] = [sentence.slice(0, clause), sentence.slice(clause, at), sentence.slice(at)];
  if (opening.length > MAX_OPENING_CHARS || !PLAIN_OPENING.test(opening) || IN_FICTION.test(sentence)) return false;
  // "You said ..., but I ...": from there on it is the writer's own word again.
  const isReported = OTHERS_SAY.test(before) && !/^,\s+but\b/i.test(opening);
  if (before !== '' && (DOUBT.test(before) || isReported || CONDITION.test(before))) return false;
  return !UNPLAIN.test(rest.replace(/(?:;|\b(?:and|but|so)\b).*/is, ''));
}
