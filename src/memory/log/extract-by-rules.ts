import type { MemoryKind } from '../storage/memory-record.ts';
import { pastDateIn } from '../text/dates.ts';
import { sentencesOf, type Words } from './sentences.ts';
import { PEOPLE, slotOf } from './slots.ts';
import { DAYS, isAsserted, isPlain, MONTHS, ownWords } from './voice.ts';

/** What a rule found in a turn: one sentence or clause, as it was said, and where it stands. */
type RuleFinding = {
  readonly content: string;
  readonly kind: MemoryKind;
  readonly slot?: string;
  /** Since when it holds, if it is told as something of the past. */
  readonly sinceMs?: number;
  readonly span: readonly [start: number, end: number];
};

/** Named in the keys of what rules found; another set of rules has another name. */
export const RULES_VERSION = 'rules-9';

type Rule = {
  readonly kind: MemoryKind;
  readonly pattern: RegExp;
  /** Whether it finds what the speaker is or likes, which may be over one day: then that is remembered, and not the rest of the sentence. */
  readonly isClaim?: boolean;
};

const REMINDER =
  /^(?:please\s+)?(?:remember|keep in mind|note(?: that|:)|don['’]t forget)(?!\s+(?:when|how|the time)\b)/i;

/**
 * What is not to be done at all: "Don't use emojis". What points at something at hand, or at a moment, is for now only ("Don't delete
 * it yet"); feeling and knowing nobody can forbid ("Don't worry", and "Don't know" without its "I").
 */
const PROHIBITION =
  /^(?:(?:and|but|also|oh),?\s+)*(?:(?:do not|don['’]t)\s+(?!(?:you|we|they|worry|panic|mind|care|bother|know|think|believe|remember|recall|understand|see|want|need|have|feel|like|love|hate|get|be|let|even|really|expect|forget|hesitate)\b)\p{L}+|stop\s+\p{L}{3,}ing|avoid)(?!\p{L}|\s+(?:it|this|that|these|those|the|him|her|them|at|there|here|anything|yourself)\b)(?!.*\b(?:yet|now|today|tonight|tomorrow|this time|until|before|if|unless)\b)\s*[\p{L}.!]/iu;

const I_AM =
  "\\bI(?:(?:['’]m| am)(?:\\s+(?:not|no longer|still|also|now|currently|actually|both))*|(?:['’]ve| have)?\\s+(?:stopped|quit|gave up|given up) being|\\s+used to be)\\s+";
/** Amounts, distances and passing states: "a bit tired", "an hour away", "a mess". */
const PASSING =
  'bit|little|lot|few|couple|tad|touch|hundred|thousand|million|second|minute|hour|day|week|month|year|while|step|moment|mess|wreck|(?:(?:total|complete|such an?)\\s+)?(?:idiot|fool|failure|loser|genius)';
/** What one is for years: by what one eats, by one's body and tongues, and by how one lives. */
const LASTING =
  'vegan|\\p{L}{3,}arian|\\p{L}+-free|(?:\\p{L}+[ -])?intolerant|c(?:o)?eliac|(?:diabet|asthmat|dyslex|epilept|autist|anaem|anem)ic|(?:colou?r-?\\s?)?blind|deaf|\\p{L}+-?(?:handed|sighted|lingual|sexual)|pregnant|disabled|married|single|divorced|widowed|retired|unemployed|(?:self-)?employed|freelance';
/** The end of what is said, or more about the same. */
const GOES_NO_FURTHER =
  '(?=\\W*$|[,.;!]|\\s+(?:and|but|so|now|too|as well|any ?more|any longer|because|though|although|last|since|from|for|with|by|these days)(?![\\p{L}-]))';

/** A sentence that fits several rules belongs to the first. */
const RULES: readonly Rule[] = [
  { kind: 'instruction', pattern: REMINDER },
  {
    kind: 'instruction',
    pattern:
      /^(?:please\s+|you (?:should|must)\s+)?(?:always|never)\s+(?!mind|heard|seen|been|again|the|an?\b)\p{Ll}/iu,
  },
  { kind: 'instruction', pattern: /\b(?:from now on|in (?:the )?future,? (?:please|always|never)|every time you)\b/i },
  { kind: 'instruction', pattern: /^please\s+(?:do not|don['’]t|stop|avoid|use|answer|reply|write|call)\b/i },
  { kind: 'instruction', pattern: PROHIBITION },
  {
    kind: 'decision',
    pattern:
      /\b(?:I|we)(?:['’]ve| have)?\s+(?:decided|agreed|chose|settled)\b|\b(?:let['’]s|we['’]ll|we will)\s+(?:go with|use|stick with|switch to)\b/i,
  },
  {
    kind: 'preference',
    isClaim: true,
    pattern:
      /\bI\s+(?:used to\s+)?(?:(?:really|always|usually|much|generally|absolutely|still|also|both|never|no longer|do(?:n['’]t| not))\s+)*(?:prefer|like|love|enjoy|adore|hate|dislike|loathe|detest|despise)\b(?!\s+to (?:know|see you|say|think|admit)\b|\s+(?:your|the (?:first|second|third|last|next|other|latter|former))\b|\s+(?:(?:it|this|that|these|those|you)\s*)+\p{L}*\W*$)|\bI(?:['’]d| would)\s+(?:(?:really|always|much)\s+)*(?:prefer|rather)\b/iu,
  },
  {
    kind: 'preference',
    isClaim: true,
    pattern:
      /\bI\s+(?:can(?:['’]t|not) (?:stand|bear)|(?:do(?:n['’]t| not)|no longer) (?:eat|drink|use))\b|\bI(?:['’]m| am) (?:(?:not|no longer|still|really) )*(?:a fan of|allergic to|into|fond of)\b/i,
  },
  { kind: 'fact', isClaim: true, pattern: new RegExp(`${I_AM}an?\\s+(?!(?:${PASSING})\\b)\\p{L}`, 'iu') },
  { kind: 'fact', isClaim: true, pattern: new RegExp(`${I_AM}(?:${LASTING})${GOES_NO_FURTHER}`, 'iu') },
  {
    kind: 'fact',
    isClaim: true,
    pattern: new RegExp(`${I_AM}(?:from\\s+\\p{Lu}|(?:${PEOPLE})${GOES_NO_FURTHER})`, 'u'),
  },
  {
    kind: 'fact',
    pattern:
      /\b(?:our|the|my) (?:project|repo|repository|server|database|app|service|code|build|team|company) (?:uses|runs|is|lives|needs|requires)\b/i,
  },
  {
    kind: 'fact',
    pattern:
      /\bmy (?:wife|husband|partner|son|daughter|dog|cat|mother|father|brother|sister|boss|manager)(?:['’]s name)? is\b/i,
  },
];

/** A clause of its own begins here: another subject, or another of the verbs that say where one lives and works. */
const CLAUSE =
  /[,;]?\s+(?:and|but|so)\s+(?=(?:I|we|my|our)\b|(?:live|moved|work|joined)\b)|[,;]\s+(?=(?:now\s+)?(?:I|we|my|our)\b)/i;
/** Addresses are copied as they are, so the full stop after one is not part of it. */
const STOP_AFTER_ADDRESS = /(?<=\S[@./:]\S*)[.!,;]+$/;

/** Every rule and slot needs one of these words, and most turns have none. */
const CAN_TEACH =
  /\b(?:I|we|my|our|me|let|please|remember|note|keep|forget|always|never|do not|don['’]t|stop|avoid|from now|future|every time|the (?:project|repo|repository|server|database|app|service|code|build|team|company))\b/i;

/** Nobody says something plainly in a longer one, and a sentence is looked at once for each of its clauses. */
const MAX_SENTENCE_CHARS = 1000;

/** What explicit wording in a turn says about its speaker: preferences, instructions, decisions, names and the like. */
export function extractByRules(text: string, nowMs = Date.now()): RuleFinding[] {
  if (!CAN_TEACH.test(text)) return [];
  return sentencesOf(ownWords(text)).flatMap((found) => {
    if (found.words.length > MAX_SENTENCE_CHARS) return [];
    const sentence = { ...found, words: statedIn(found.words) };
    return clausesOf(sentence.words).flatMap((clause) => {
      const rule = classify(clause);
      if (rule === undefined) return [];
      const { claim = clause, ...named } = rule;
      const start = sentence.at + claim.at;
      const content = text.slice(start, start + claim.words.length).replace(STOP_AFTER_ADDRESS, '');
      const sinceMs = isHistory(clause.words) ? pastDateIn(clause.words, nowMs) : undefined;
      const dated = sinceMs === undefined ? named : { ...named, sinceMs };
      return [{ content, ...dated, span: [start, start + content.length] as const }];
    });
  });
}

/** The reason that begins a question, and what is said before one: "I'm no longer vegan, so what should I buy?" */
const REASON = /^\W*(?:(?:and|but|so|well)\b\W*)*(?:since|because|now that)\s+(?:I|we|my|our)\b[^,?]*(?=,)/i;
const BEFORE_QUESTION =
  /^.*?(?=(?:[–—;]|\s-\s|,\s+(?=(?:so|and)\b))\W*(?:(?:so|and)\s+)?(?:what|where|which|who|how|when|why|can|could|should|would|will|may|do|does|is|are|any)\s+\S+\s+\S[^–—;]*\?+$)/is;

/** What a sentence states; of one that asks, at most its beginning. */
function statedIn(sentence: string): string {
  if (!sentence.endsWith('?')) return sentence;
  return (REASON.exec(sentence) ?? BEFORE_QUESTION.exec(sentence))?.[0] ?? '';
}

/** "I moved to Oslo in 2019" tells of then; "I live in the house we bought in 2019" tells of now. */
function isHistory(words: string): boolean {
  return (
    /\b(?:I|we)(?:['’]ve| have)?\s+(?:\w+\s+)?(?:moved|relocated|joined|started|got|was|were|turned|left|quit|decided|chose|agreed)\b/i.test(
      words,
    ) && !/\bborn\b/i.test(words)
  );
}

type Clause = Words & { readonly sentence: string; readonly before?: Clause | undefined };

/** A sentence whole, unless one of its clauses fills a slot: what replaces that must not take the rest with it. */
function clausesOf(sentence: string): Clause[] {
  const clauses: Clause[] = [];
  let at = 0;
  for (const words of sentence.split(CLAUSE)) {
    at = sentence.indexOf(words, at);
    clauses.push({ words, at, sentence, before: clauses.at(-1) });
    at += words.length;
  }
  const isOne =
    clauses.length === 1 || isReminder(sentence) || !clauses.some((clause) => slotIn(clause) ?? claimIn(clause));
  return isOne ? [{ words: sentence, at: 0, sentence }] : clauses;
}

/** The slot that a clause fills. A later clause may share the subject of the first; one fact after the other is as plain as the first. */
function slotIn({ words, at, sentence, before }: Clause): string | undefined {
  const found = slotOf(words) ?? (at > 0 ? slotOf(`I ${words}`) : undefined);
  if (found === undefined) return undefined;
  const place = Math.min(found.at, words.length);
  const isListed = before !== undefined && slotIn(before) !== undefined && isPlain(words, place);
  return isListed || isPlain(sentence, at + place) ? found.slot : undefined;
}

/** Where a claim ends: a reason, a consequence, or something else. */
const NEXT_CLAUSE =
  /[;:(–—]|\s-\s|,\s*(?:so|because|please|(?:and\s+)?(?:then|I|we|you|he|she|they|my|our))\b|\s(?:because|and\s+(?:I|my)|so\s+(?:I|we|you|please))\b/i;
/** What comes after something that is over says when, or something else. */
const AFTER_END = new RegExp(
  `${NEXT_CLAUSE.source}|,|\\s+(?:but|though|although|which|by the way|btw|these days|yesterday|today|since|as of|(?:last|this|on) ${DAYS}|in (?:${MONTHS}|\\d{4}))(?!\\p{L})`,
  'iu',
);
const IS_OVER = /\b(?:no longer|used to|any ?more|any longer|stopped|quit|(?:gave|given) up)\b/i;
const IS_NOT = /\bnot\b|n['’]t\b/i;
/** Goes on with what was said: "I no longer like coffee, except in the morning". */
const LIMITS =
  /^\W*(?:(?:but|though|although)\s+)?(?:only|not|at least|except|unless|if|when|just|mostly|usually|sometimes|still)\b/i;

/** What a clause says that its speaker is or likes, without what stands around it, unless that limits it ("In the evening I prefer tea"). */
function claimIn({ words, at, sentence }: Clause): (Words & { kind: MemoryKind }) | undefined {
  const rule = RULES.find(({ kind, pattern }) => kind !== 'instruction' && isSaid(pattern, { words, at, sentence }));
  if (rule?.isClaim !== true) return undefined;
  const from = words.search(rule.pattern);
  if (!isPlain(sentence, at + from)) return undefined;
  const said = words.slice(from);
  const claim = said.split(NEXT_CLAUSE, 1)[0] ?? said;
  const cut = IS_OVER.test(claim) ? (said.split(AFTER_END, 1)[0] ?? said) : IS_NOT.test(claim) ? said : claim;
  const rest = said.slice(cut.length);
  const isCut = /\p{L}/u.test(rest) && !LIMITS.test(rest);
  return { kind: rule.kind, at: at + from, words: isCut ? cut.trimEnd() : said };
}

function isSaid(pattern: RegExp, { words, at, sentence }: Clause): boolean {
  const from = words.search(pattern);
  return from >= 0 && isAsserted(sentence, at + from);
}

type Classified = { readonly kind: MemoryKind; readonly slot?: string; readonly claim?: Words };

function classify(clause: Clause): Classified | undefined {
  const isInstruction = RULES.some(({ kind, pattern }) => kind === 'instruction' && pattern.test(clause.words));
  if (!isInstruction) return classifyStatement(clause);
  const { kind = 'instruction', slot, claim } = (isReminder(clause.words) && classifyStatement(clause)) || {};
  if (isAll(claim, clause)) return { kind, claim };
  return { kind: 'instruction', ...(slot !== undefined && { slot }) };
}

function classifyStatement(clause: Clause): Classified | undefined {
  const slot = slotIn(clause);
  if (slot !== undefined) return { kind: slot.includes('favourite ') ? 'preference' : 'fact', slot };
  const claim = claimIn(clause);
  if (claim !== undefined) return { kind: claim.kind, claim };
  const rule = RULES.find(({ pattern }) => isSaid(pattern, clause));
  return rule === undefined ? undefined : { kind: rule.kind };
}

/** "Remember that I am vegan" says nothing but what its speaker is. */
function isAll(claim: Words | undefined, { words, at }: Clause): claim is Words {
  return claim !== undefined && !/\p{L}/u.test(words.slice(claim.at - at + claim.words.length));
}

/** "Remember that I live in Paris" is a fact as well: it is over when that is. */
function isReminder(words: string): boolean {
  return REMINDER.test(words) || /^please call me \p{Lu}/iu.test(words);
}

const ACKNOWLEDGEMENT =
  /^(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|thanks|thank you|thx|sure|great|cool|nice|got it|sounds good|perfect|alright|right|hi|hello|hey|bye|goodbye|please|continue|go on)[\s,.!]*)+$/i;

/** Whether a turn says nothing that could be asked for later. */
export function isAcknowledgement(text: string): boolean {
  return ACKNOWLEDGEMENT.test(text.trim());
}
