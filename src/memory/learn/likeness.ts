import { similarity, termsOf, wordsOf } from '../text/terms.ts';

const ALIKE_FROM = 0.8;
const NEGATION =
  /\b(?:not|never|no longer|used to|cannot|neither|nor|hardly|any ?more|any longer|stopped|quit|(?:gave|given) up)\b|n['’]t\b/i;
/** Words for liking something, which say the opposite with a negation, and words for the opposite. */
const FOR = 'like love enjoy adore prefer fan fond into stand bear'.split(' ');
const AGAINST = new Set('hate dislike loathe detest despise allergic'.split(' '));
/** Words that say how much, how often or since when, and not what. */
const MANNER =
  'always never really absolutely usually generally still anymore longer today lately nowadays actually stopped quit gave given used'.split(
    ' ',
  );
/** Words of which each turns a sentence that had the other. */
const TURNS = [
  ['with', 'without'],
  ['before', 'after'],
  ['above', 'below'],
  ['more', 'less'],
] as const;
const IS_NO_MATTER = new Set<string>([...TURNS.flat(), ...FOR, ...AGAINST, ...MANNER]);
const COMPARISONS = [/^(.*)\b(?:over|than|instead of)\b(.*)$/is, /^(.*\bprefer\b.*)\bto\b(.*)$/is];

const INSTEAD = /^(.*)\b(?:instead of|rather than)\b(.*)$/is;

/** Whether two texts have nearly the same terms, whatever they say with them. */
export function isAbout(first: string, second: string): boolean {
  const matter = matterOf(first);
  return matter.length > 0 && similarity(matter, matterOf(second)) >= ALIKE_FROM;
}

/** Whether one text has all the terms of the other: a term in the place of another may be another name, place or number. */
export function includesTerms(first: string, second: string): boolean {
  const [fewer, more] = [new Set(matterOf(first)), new Set(matterOf(second))].sort((a, b) => a.size - b.size);
  return [...(fewer ?? [])].every((term) => more?.has(term));
}

/** Of two texts about the same: "like", "don't like", "hate"; "with milk", "without milk"; "tea over coffee", "coffee over tea". */
export function isOpposite(first: string, second: string): boolean {
  const [one, two] = [new Set(wordsOf(first)), new Set(wordsOf(second))];
  const turns = TURNS.filter(([a, b]) => (one.has(a) && two.has(b)) || (one.has(b) && two.has(a))).length;
  const isTurned = isAgainst(first) !== isAgainst(second);
  return (turns + Number(isTurned) + Number(isSwapped(sidesOf(first), sidesOf(second)))) % 2 === 1;
}

/** Whether the newer text puts one thing in the place of what the older one says, and says so: "SQLite instead of Postgres", after "Postgres". */
export function isInstead(newer: string, older: string): boolean {
  const [left = [], right = []] = (INSTEAD.exec(newer)?.slice(1) ?? []).map(matterOf);
  const before = matterOf(older);
  const [removed, added] = [without(before, left), without(left, before)];
  const isNamed = without(removed, right).length + without(right, before).length === 0;
  return isNamed && removed.length > 0 && added.length <= removed.length;
}

function without(terms: readonly string[], others: readonly string[]): string[] {
  return terms.filter((term) => !others.includes(term));
}

/** Who does not hate something is not against it. */
function isAgainst(text: string): boolean {
  return NEGATION.test(text) !== wordsOf(text).some((word) => AGAINST.has(word));
}

function matterOf(text: string): string[] {
  return termsOf(
    wordsOf(text)
      .filter((word) => !IS_NO_MATTER.has(word))
      .join(' '),
  );
}

/** The terms before and after the word that compares; none if nothing is compared. */
function sidesOf(text: string): readonly string[][] {
  const found = COMPARISONS.map((comparison) => comparison.exec(text)).find((match) => match !== null);
  return found?.slice(1).map(termsOf) ?? [[], []];
}

function isSwapped(
  [left = [], right = []]: readonly string[][],
  [otherLeft = [], otherRight = []]: readonly string[][],
) {
  return left.some((term) => otherRight.includes(term)) && right.some((term) => otherLeft.includes(term));
}
