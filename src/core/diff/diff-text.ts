import { align } from './align.ts';

/** A stretch of text that both have, that only the earlier one has, or only the later one. */
export type TextChange = { readonly op: 'equal' | 'remove' | 'add'; readonly text: string };

/** What was changed, and the equal stretch behind it. */
type Part = { readonly remove: string; readonly add: string; readonly equal: string };

/** Above this many words a changed stretch is shown as removed and added whole: nobody reads it word by word. */
const MAX_WORDS = 4000;

const LINE = /[^\n]*\n|[^\n]+/g;
const WORD = /[\p{L}\p{N}_]+|\s+|./gsu;

/**
 * Compares two texts by lines, and changed lines by words. The `equal` and `add` parts together are the later text,
 * the `equal` and `remove` parts the earlier one. Neighbours differ in `op`, and a removal comes before its addition.
 */
export function diffText(before: string, after: string): TextChange[] {
  if (before === after) return before === '' ? [] : [{ op: 'equal', text: before }];
  const byLine = diffTokens(split(before, LINE), split(after, LINE));
  const byWord = byLine.flatMap(({ remove, add, equal }) => [
    ...diffWords(remove, add),
    { remove: '', add: '', equal },
  ]);
  return joinParts(byWord);
}

function split(text: string, token: RegExp): string[] {
  return text.match(token) ?? [];
}

function diffWords(remove: string, add: string): Part[] {
  const [olds, news] = [split(remove, WORD), split(add, WORD)];
  return olds.length + news.length > MAX_WORDS ? [{ remove, add, equal: '' }] : diffTokens(olds, news);
}

function diffTokens(before: readonly string[], after: readonly string[]): Part[] {
  let [b, a] = [0, 0];
  const end = { before: before.length, after: after.length, length: 0 };
  return [...align(before, after), end].map((match) => {
    const [remove, add] = [before.slice(b, match.before).join(''), after.slice(a, match.after).join('')];
    [b, a] = [match.before + match.length, match.after + match.length];
    return { remove, add, equal: before.slice(match.before, b).join('') };
  });
}

/** Joins neighbours, and puts all that is removed between two equal parts before what is added. */
function joinParts(parts: readonly Part[]): TextChange[] {
  const whole: { remove: string; add: string; equal: string }[] = [];
  for (const { remove, add, equal } of parts) {
    const last = whole.at(-1);
    const isNew = last === undefined || (last.equal !== '' && remove + add !== '');
    if (isNew) whole.push({ remove, add, equal });
    else {
      last.remove += remove;
      last.add += add;
      last.equal += equal;
    }
  }
  const changes = whole.flatMap((part) => (['remove', 'add', 'equal'] as const).map((op) => ({ op, text: part[op] })));
  return changes.filter(({ text }) => text !== '');
}
