import type { MemoryKind } from './memory-record.ts';

/** What a rule found in a turn: one sentence, as it was said, and where it stands. */
export type RuleFinding = {
  readonly content: string;
  readonly kind: MemoryKind;
  readonly slot?: string;
  readonly span: readonly [start: number, end: number];
};

/** Named in the keys of what rules found; another set of rules has another name. */
export const RULES_VERSION = 'rules-1';

type Rule = { readonly kind: MemoryKind; readonly pattern: RegExp; readonly slot?: string };

/** A sentence that fits several rules belongs to the first. */
const RULES: readonly Rule[] = [
  {
    kind: 'instruction',
    pattern: /^(?:please\s+)?(?:remember|keep in mind|note|don['’]t forget)\b(?!\s+(?:when|how|the time)\b)/i,
  },
  { kind: 'instruction', pattern: /^(?:please\s+|you (?:should|must)\s+)?(?:always|never)\s+\p{Ll}/iu },
  { kind: 'instruction', pattern: /\b(?:from now on|in (?:the )?future,? (?:please|always|never)|every time you)\b/i },
  { kind: 'instruction', pattern: /^please\s+(?:do not|don['’]t|stop|avoid|use|answer|reply|write|call)\b/i },
  {
    kind: 'fact',
    slot: 'name',
    pattern: /\b(?:my name is|my name['’]s|call me|I go by|I am called|I['’]m called)\s+\S/i,
  },
  {
    kind: 'fact',
    slot: 'home',
    pattern:
      /\b(?:I|we)(?:['’]ve| have)?\s+(?:now\s+)?(?:live|moved|relocated|am based|are based)\s+(?:in|to)\b|\bI['’]m based in\b/i,
  },
  {
    kind: 'fact',
    slot: 'employer',
    pattern: /\bI(?:['’]ve)?\s+(?:now\s+|just\s+)?(?:work (?:at|for)|joined|started (?:working )?at)\s+\S/i,
  },
  { kind: 'fact', slot: 'role', pattern: /\bI\s+(?:now\s+)?work as\b|\bmy (?:job|role|title|profession) is\b/i },
  { kind: 'fact', slot: 'age', pattern: /\bI(?:['’]m| am)\s+\d{1,3}\s+years?\s+old\b/i },
  { kind: 'fact', slot: 'birthday', pattern: /\bmy birthday is\b|\bI was born (?:on|in)\b/i },
  { kind: 'fact', slot: 'timezone', pattern: /\bmy time ?zone is\b/i },
  { kind: 'fact', slot: 'language', pattern: /\bmy (?:native|first) language is\b|\bmy mother tongue is\b/i },
  {
    kind: 'decision',
    pattern:
      /\b(?:I|we)(?:['’]ve| have)?\s+(?:decided|agreed|chose|settled)\b|\b(?:let['’]s|we['’]ll|we will)\s+(?:go with|use|stick with|switch to)\b/i,
  },
  {
    kind: 'preference',
    pattern:
      /\bI(?:['’]d)?\s+(?:really |always |usually |much |generally |absolutely )*(?:prefer|like|love|enjoy|hate|dislike|loathe)\b(?!\s+to (?:know|see you)\b)/i,
  },
  {
    kind: 'preference',
    pattern:
      /\bI\s+(?:can['’]t stand|can['’]t bear|don['’]t (?:like|enjoy|eat|drink|use))\b|\bI(?:['’]m| am) (?:not )?(?:a fan of|allergic to|into|fond of)\b/i,
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

const FAVOURITE = /\bmy favou?rite\s+([\p{L}\p{N}-]+(?:\s+[\p{L}\p{N}-]+)?)\s+(?:is|are)\b/iu;
const SENTENCE = /[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[^\n]+/g;

/** What explicit wording in a turn says about its speaker: preferences, instructions, decisions, names and the like. */
export function extractByRules(text: string): RuleFinding[] {
  return [...text.matchAll(SENTENCE)].flatMap((match) => {
    const content = match[0].trim();
    const found = content.endsWith('?') ? undefined : classify(content);
    if (found === undefined) return [];
    const start = match.index + match[0].indexOf(content);
    return [{ content, ...found, span: [start, start + content.length] as const }];
  });
}

function classify(sentence: string): { kind: MemoryKind; slot?: string } | undefined {
  const favourite = FAVOURITE.exec(sentence)?.[1];
  if (favourite !== undefined) return { kind: 'preference', slot: `favourite ${favourite.toLowerCase()}` };
  const rule = RULES.find(({ pattern }) => pattern.test(sentence));
  return rule === undefined ? undefined : { kind: rule.kind, ...(rule.slot !== undefined && { slot: rule.slot }) };
}

const ACKNOWLEDGEMENT =
  /^(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|thanks|thank you|thx|sure|great|cool|nice|got it|sounds good|perfect|alright|right|hi|hello|hey|bye|goodbye|please|continue|go on)[\s,.!]*)+$/i;

/** Whether a turn says nothing that could be asked for later. */
export function isAcknowledgement(text: string): boolean {
  return ACKNOWLEDGEMENT.test(text.trim());
}
