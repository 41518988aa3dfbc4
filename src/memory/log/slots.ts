import { termsOf } from '../text/terms.ts';

/** Something that has one value at a time: how people say it, how they say that it is over, and how they ask for it. */
type Slot = {
  readonly says: RegExp;
  /** What its value looks like, after the words that say so: "my phone is dead" names no phone. Minds capitals. */
  readonly fits: RegExp;
  /** What looks like it and is not. Minds capitals, which tell places and companies from other things. */
  readonly except?: RegExp;
  readonly ends?: RegExp;
  readonly asks: RegExp;
};

const LATELY = '(?:\\s+(?:now|just|recently|finally|actually|currently|since))*';
const I = `\\b(?:I|we)(?:['’](?:ve|m|re)| have| am| are)?${LATELY}\\s+`;
const MY = '\\bmy\\s+(?:new\\s+|current\\s+)?';
const CHANGED_TO = '(?:changed|moved|switched|updated)(?:\\s+from\\s+\\S{1,40}(?:\\s+\\S{1,40}?)?)?\\s+to';
const IS = `(?:\\s+is(?:n['’]t)?|['’]s|\\s+(?:(?:has|was|got)\\s+)?(?:just\\s+)?${CHANGED_TO})(?:\\s+now)?(?![\\w'’])`;
const NO_MORE = `\\bI(?:['’]m| am| do)?(?:\\s+no longer|\\s+not|\\s+used to|n['’]t)\\s+`;

/** A name or a number: who writes capitals at all gives them to names. */
const NAME = `(?:(?:now|not|no longer|called|actually|really|currently|still|only|near)\\s+)*["'“‘]?(?:\\d|\\p{Lu})`;
/** One word that ends the clause: a name in small letters. */
const ALONE = '\\p{Ll}+(?:\\s+(?:now|too|again|currently|these days|any ?more))*\\P{L}*$';

/** After these words, or after "is", stands a name; in small letters only if there are no capitals at all. */
function named(words: string): string {
  const before = `(?:(?<!\\p{L})(?:is|isn['’]t|${CHANGED_TO}|${words})|['’]s)\\s+`;
  return `${before}${NAME}|^\\P{Lu}*${before}${ALONE}`;
}

const NAMED = new RegExp(named('are'), 'u');

/** Peoples and faiths, as far as their form tells; some names ("Brian") look like them. */
export const PEOPLE =
  '\\p{Lu}\\p{Ll}*(?:ish|ese|\\p{Ll}{2}ian|\\p{Ll}{2}ean|ican|ist|lim|lic|stani|aeli|man)|Dutch|French|Swiss|Greek|Welsh|Czech|Thai|Iraqi|Hindu|Sikh';
/** What else begins with a capital where all words do. */
const EXCLAIMED = 'Sorry|Sure|Okay|Fine|Not|Here|Back|Done|Ready|Happy|Glad|Vegan';
const GIVEN_NAME = '\\p{Lu}\\p{Ll}+';
/** "I'm Ann", "I am Ann Lee from Rome": a name, and then nothing that it could belong to. */
const I_AM_NAMED = `\\bI(?:['’]m| am) (?!(?:${PEOPLE}|${EXCLAIMED})\\b)${GIVEN_NAME}(?:[ -]${GIVEN_NAME}){0,2}(?=\\W*$|[,.;!]|\\s+(?:and|but|from|here|by the way)(?!\\p{L}))`;

/** States of mind and ways of life, not places; a name in capitals is a place whatever it means. */
const STATES =
  'fear|hope|dread|terror|denial|peace|harmony|luxury|pain|agony|sin|silence|exile|style|comfort|dreams?|nightmares?|hell|heaven|bubble|world|chaos|shadows?|mess|moment|past|present|future|the now|times|doubt|shame|awe|hiding|limbo|love|grief|misery|debt|tears|action|squalor|anticipation|my head|the clouds|it|this|that';
/** Abstract nouns have no article: "in isolation", but "in an apartment" and "in the city". */
const ABSTRACT = '(?!city|community)\\p{Ll}+(?:ness|tion|sion|ity|ship|ism|erty|ainty)';
const NOWHERE = new RegExp(
  `\\bto (?:the|a|an|my|our|this|that|another) \\p{Ll}|\\b(?:in|to) (?:(?:\\p{Ll}+\\s+){0,2}(?:${STATES})|(?:constant\\s+|total\\s+|complete\\s+|utter\\s+|great\\s+|such\\s+)?${ABSTRACT})(?!\\p{L})(?!\\s+\\p{Lu})`,
  'u',
);

const SLOTS: Readonly<Record<string, Slot>> = {
  name: {
    says: new RegExp(
      `${MY}name${IS}\\s+\\S|\\bI go by\\s+\\S|\\bI(?:['’]m| am)(?: called)?\\s+\\S|\\bcall me\\s+\\S`,
      'i',
    ),
    fits: new RegExp(`${named('by|called|[Cc]all me')}|^${I_AM_NAMED}`, 'u'),
    except: /\b(?:[Cc]all me|I go by|called) (?!["'“‘]?\p{Lu})/u,
    asks: /\bmy (?:full |first |last )?name\b|\bwho am I\b|\bam I called\b|['’]s (?:full |first |last )?name\b/i,
  },
  home: {
    says: new RegExp(
      `${I}(?:(?:live|living|reside|residing|based|settled(?: down)?)${LATELY}\\s+in|(?:moved|relocated)(?:\\s+back|\\s+over)?(?:\\s+from\\s+[\\p{L}' -]{1,40}?)?\\s+to)\\b|${MY}(?:home(?: ?town)?|home address|address|city)${IS}`,
      'iu',
    ),
    fits: new RegExp(`${named('to')}|\\bin\\s+(?:${NAME}|${ALONE}|(?:an?|the|my|our)\\s+\\p{Ll})`, 'u'),
    except: NOWHERE,
    ends: new RegExp(`${NO_MORE}(?:live|living) in\\b|${I}moved (?:away from|out of)\\b`, 'i'),
    asks: /\bwhere\b.*\b(?:live|lives|living|based|reside|home)\b|\b(?:live|lives|based) in which\b|\bhome\b|\baddress\b|\b(?:city|town|country)\b.*\b(?:live|lives|living|based)\b|\bmoved? to\b/i,
  },
  employer: {
    says: new RegExp(
      `${I}(?:work(?:ing)?\\s+(?:at|for)|employed\\s+(?:at|by)|joined|started(?: working| work| a (?:new )?job)?\\s+at|got (?:a|my) (?:new )?job (?:at|with))\\s+\\S|${MY}(?:employer|company)${IS}`,
      'i',
    ),
    fits: new RegExp(`${named('joined|by|with')}|\\b(?:at|for)\\s+(?:${NAME}|${ALONE})`, 'u'),
    except:
      /\bjoined \S+ for\b|\bat \d|\bat (?:night|home|it|this|that|my|least|best|most|height|sea|times)\b|\bfor (?:myself|free|fun|nothing|peanuts|now|a (?:living|while|long)|the (?:best|most)|it|this|that|\d|hours|days|weeks|months|years)\b/u,
    ends: new RegExp(
      `${NO_MORE}work(?:ing)? (?:at|for)\\b|${I}(?:left|quit|(?:resigned|retired) from|(?:got|was|were|been) (?:laid off|let go|fired) (?:from|by))(?= \\p{Lu}| my job at)`,
      'u',
    ),
    asks: /\bwhere\b.*\bwork(?:s|ing)?\b|\bworks? (?:at|for)\b|\bemploy(?:er|ed|s)\b|\b(?:my|['’]s) (?:company|firm|workplace|office)\b/i,
  },
  role: {
    says: new RegExp(
      `${I}(?:work(?:ing)? as|(?:been |was |got )?promoted to)\\b|\\bI (?:was|got) promoted to\\b|${MY}(?:job|role|title|profession|position|occupation)${IS}`,
      'i',
    ),
    fits: new RegExp(`\\b(?:as|to)\\s|${NAMED.source}|(?:is|['’]s)\\s+(?:now\\s+)?(?:an?|the)\\s`, 'u'),
    asks: /\b(?:job|role|title|profession|occupation|position)\b|\bfor a living\b|\bworks? as\b/i,
  },
  age: {
    says: /\bI(?:['’]m| am)\s+(?:now\s+)?\d{1,3}\s+(?:years?\s+old|now)\b|\bI\s+(?:just\s+|recently\s+)?turned\s+\d{1,3}\b/i,
    fits: /\bI['’ ]?a?m\b|turned\s+\d{1,2}(?:[^\w ]|$|\s+(?:years|now|today|yesterday|last|this|in|on|and)\b)/,
    asks: /\bhow old\b|\b(?:my|['’]s) age\b/i,
  },
  birthday: {
    says: /\bmy birthday is\b|\bI was born (?:on|in)\b/i,
    fits: new RegExp(`\\b(?:on|in)\\s|${NAMED.source}`, 'u'),
    asks: /\bbirthday\b|\bborn\b/i,
  },
  timezone: { says: new RegExp(`${MY}time ?zone${IS}`, 'i'), fits: NAMED, asks: /\btime ?zone\b/i },
  language: {
    says: /\bmy (?:native|first) language is\b|\bmy mother tongue is\b/i,
    fits: NAMED,
    asks: /\b(?:native|first) language\b|\bmother tongue\b/i,
  },
};

/** What else is one thing at a time; the slot is called after it. */
const ATTRIBUTE = new RegExp(
  `(?:${MY}|\\bI(?:['’]ve| have)(?: got)? a new (?=e-?mail))(e-?mail|phone|mobile|budget|deadline|salary|weight|height|diet|nationality|destination|username|shoe size|(?:wife|husband|partner|boss|manager|doctor)['’]s name)(?:\\s+address|\\s+number)?(?:${IS}|:)`,
  'i',
);
/** What else than a name the values of attributes look like. */
const VALUES: Readonly<Record<string, RegExp>> = {
  email: /@/,
  phone: /\d\D?\d/,
  mobile: /\d\D?\d/,
  diet: /./,
  username: /./,
};
const THING = '([\\p{L}\\p{N}-]+(?:\\s+[\\p{L}\\p{N}-]+)?)';
const FAVOURITE = new RegExp(`${MY}favou?rite\\s+${THING}\\s+(?:is|are|(?:has\\s+)?${CHANGED_TO})\\b`, 'iu');
const IS_FAVOURITE = new RegExp(
  `(?<![\\p{L}\\p{N}])(?:[\\p{L}\\p{N}'’-]+\\s+){1,3}?(?:is|are)(?:\\s+now|\\s+not|\\s+no longer|n['’]t)?\\s+my\\s+(?:new\\s+)?favou?rite\\s+${THING}?(?:\\s+now)?[.!]*$`,
  'iu',
);
const NOW = /\s+now$/;

type Filled = { readonly slot: string; readonly at: number };

/** The slot that a sentence fills; one that ends or denies what is in a slot fills the slot `former ...`. */
export function slotOf(sentence: string): Filled | undefined {
  return favouriteIn(sentence) ?? knownIn(sentence) ?? attributeIn(sentence);
}

function favouriteIn(sentence: string): Filled | undefined {
  if (!/favou?rite/i.test(sentence)) return undefined;
  const match = FAVOURITE.exec(sentence) ?? IS_FAVOURITE.exec(sentence);
  return match?.[1] === undefined
    ? undefined
    : fill(sentence, `favourite ${spell(match[1].replace(NOW, ''))}`, match.index);
}

function knownIn(sentence: string): Filled | undefined {
  for (const [slot, { says, fits, except, ends }] of Object.entries(SLOTS)) {
    const said = says.exec(sentence);
    const isSaid = said !== null && fits.test(sentence.slice(said.index)) && except?.test(sentence) !== true;
    if (isSaid) return fill(sentence, slot, said.index);
    const ended = ends?.exec(sentence);
    if (ended) return { slot: `${FORMER}${slot}`, at: ended.index };
  }
  return undefined;
}

function attributeIn(sentence: string): Filled | undefined {
  const match = ATTRIBUTE.exec(sentence);
  if (match?.[1] === undefined) return undefined;
  const slot = spell(match[1]);
  return (VALUES[slot] ?? NAMED).test(sentence.slice(match.index)) ? fill(sentence, slot, match.index) : undefined;
}

const IS_NOT =
  /^(?:\S+(?:\s+(?!is\b|are\b)\S+){0,5}?\s+)??(?:\S*['’]s|is|are)(?:\s+(?:really|actually|now|certainly)\b)*(?:\s+(?:not\b(?! only)|no longer\b)|n['’]t\b)/;

function fill(sentence: string, slot: string, at: number): Filled {
  return { slot: IS_NOT.test(sentence.slice(at)) ? `${FORMER}${slot}` : slot, at };
}

const FORMER = 'former ';

/** The slot whose value is over when this one is filled. */
export function endedBy(slot: string | undefined): string | undefined {
  return slot?.startsWith(FORMER) === true ? slot.slice(FORMER.length) : undefined;
}

/** Where it is said that what is in a slot is over, and the other way round. */
export function counterpartOf(slot: string): string {
  return endedBy(slot) ?? `${FORMER}${slot}`;
}

/** Whether a newer memory in this slot takes the place of an older one; several things may be over. */
export function isExclusive(slot: string): boolean {
  return endedBy(slot) === undefined;
}

/** Whether what ends a slot speaks of the value that is in it: "I left Acme" says nothing of Globex. */
export function speaksOfSame(slot: string, ending: string, value: string): boolean {
  const { says, ends } = SLOTS[slot] ?? {};
  const named = new Set(termsOf(`${slot} address number longer anymore new current`));
  const objects = new Set(termsAfter(ends, ending));
  return termsAfter(says, value).some((term) => objects.has(term) && !named.has(term));
}

function termsAfter(pattern: RegExp | undefined, text: string): string[] {
  const match = pattern?.exec(text);
  // Patterns may take the first letter of what follows them.
  return termsOf(match ? text.slice(match.index + match[0].length - (/\s\S$/.test(match[0]) ? 1 : 0)) : text);
}

/** Whether a question asks for what is in a slot: in words of its own, or by all the words of its name. */
export function asksFor(slot: string, question: string): boolean {
  const known = Object.hasOwn(SLOTS, slot) ? SLOTS[slot] : undefined;
  if (known !== undefined) return known.asks.test(question);
  const asked = new Set(termsOf(spell(question)));
  const terms = termsOf(slot);
  return terms.length > 0 && terms.every((term) => asked.has(term));
}

function spell(text: string): string {
  return text
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .replace(/\b(col|fav|flav|hon|hum|neighb)or/g, '$1our')
    .replace(/\be-mail/g, 'email')
    .replace(/’/g, "'");
}
