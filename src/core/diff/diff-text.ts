import { align } from './align.ts';

/** A stretch of text that both have, that only the earlier one has, or only the later one. */
export type TextChange = { readonly op: 'equal' | 'remove' | 'add'; readonly text: string };

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
  const changes = new TextChanges();
  diffTokens(split(before, LINE), split(after, LINE), {
    onEqual: (text) => changes.push('equal', text),
    onChange: (removed, added) => diffWords(removed, added, changes),
  });
  return changes.list();
}

function split(text: string, token: RegExp): string[] {
  return text.match(token) ?? [];
}

function diffWords(removed: string, added: string, changes: TextChanges): void {
  const olds = split(removed, WORD);
  const news = split(added, WORD);
  if (olds.length + news.length > MAX_WORDS) {
    changes.push('remove', removed);
    changes.push('add', added);
    return;
  }
  diffTokens(olds, news, {
    onEqual: (text) => changes.push('equal', text),
    onChange: (oldWords, newWords) => {
      changes.push('remove', oldWords);
      changes.push('add', newWords);
    },
  });
}

type TokenVisitor = {
  readonly onEqual: (text: string) => void;
  readonly onChange: (removed: string, added: string) => void;
};

function diffTokens(before: readonly string[], after: readonly string[], visitor: TokenVisitor): void {
  let [b, a] = [0, 0];
  const skipTo = (beforeEnd: number, afterEnd: number) => {
    if (b < beforeEnd || a < afterEnd)
      visitor.onChange(before.slice(b, beforeEnd).join(''), after.slice(a, afterEnd).join(''));
  };
  for (const match of align(before, after)) {
    skipTo(match.before, match.after);
    b = match.before + match.length;
    a = match.after + match.length;
    visitor.onEqual(before.slice(match.before, b).join(''));
  }
  skipTo(before.length, after.length);
}

/** Collects changes: joins neighbours, and puts what is removed between two equal parts before what is added. */
class TextChanges {
  readonly #changes: TextChange[] = [];
  #pending = { remove: '', add: '' };

  push(op: TextChange['op'], text: string): void {
    if (op !== 'equal') {
      this.#pending[op] += text;
      return;
    }
    this.#flush();
    const last = this.#changes.at(-1);
    if (last?.op === 'equal') this.#changes[this.#changes.length - 1] = { op, text: last.text + text };
    else if (text !== '') this.#changes.push({ op, text });
  }

  #flush(): void {
    const { remove, add } = this.#pending;
    this.#pending = { remove: '', add: '' };
    if (remove !== '') this.#changes.push({ op: 'remove', text: remove });
    if (add !== '') this.#changes.push({ op: 'add', text: add });
  }

  list(): TextChange[] {
    this.#flush();
    return this.#changes;
  }
}
