/** A stretch of a text, and where it stands in it. */
export type Words = { readonly words: string; readonly at: number };

const END = /[.!?]+["')\]”’»]*(?=\s|$)|\n/g;
/** A full stop after one of these, or after an initial, ends no sentence. */
const ABBREVIATION =
  /(?:^|[\s(,])(?:St|Str|Rd|Ave|Blvd|Ln|Sq|Apt|Bldg|No|Nr|Mr|Mrs|Ms|Dr|Prof|Inc|Ltd|Co|Corp|Jr|Sr|Mt|Ft|vs|approx|[eE]\.g|i\.e|(?:\p{Lu}\.)*(?!I\.)\p{Lu})\.$/u;
/** Unless a new sentence obviously begins. */
const BEGINNING =
  /^\s+(?:I|We|My|Our|It|He|She|They|You|The|This|That|There|Please|And|But|So|Also|What|Where|When|How|Why|Who|Do|Can|Never|Always|Remember)\b/;
const LOOK_BACK = 16;
const LOOK_AHEAD = 16;

/** The sentences of a text. A line break ends one; the dots of addresses and abbreviations do not. */
export function sentencesOf(text: string): Words[] {
  const sentences: Words[] = [];
  let from = 0;
  const take = (to: number) => {
    const words = text.slice(from, to).trim();
    if (words !== '') sentences.push({ words, at: text.indexOf(words, from) });
    from = to;
  };
  for (const match of text.matchAll(END)) {
    const end = match.index + match[0].length;
    if (!isAbbreviated(text, end)) take(end);
  }
  take(text.length);
  return sentences;
}

function isAbbreviated(text: string, end: number): boolean {
  const after = text.slice(end, end + LOOK_AHEAD);
  if (!ABBREVIATION.test(text.slice(Math.max(0, end - LOOK_BACK), end))) return false;
  return /\S/.test(after) && !after.startsWith('\n') && !BEGINNING.test(after);
}
