/** What one place of a pattern takes: any number of parts or characters, or one that passes. */
type Token = 'any' | ((unit: string) => boolean);

type Rule = { readonly isNegated: boolean; readonly isFolderOnly: boolean; readonly parts: readonly Token[] };

/**
 * Patterns in the manner of .gitignore: `*`, `?`, `[a-z]`, `**`, a slash at the end for folders only, a slash elsewhere to bind the pattern
 * to the top, `!` to take back, `#` for a remark; the last one that fits decides. What is inside an ignored folder is ignored.
 * Matching takes time in proportion to pattern times path, whatever the pattern: patterns may come with a stored state.
 */
export class IgnoreList {
  readonly #lists: readonly (readonly Rule[])[];

  /** Of several lists each decides for itself, and what one ignores is ignored: no list takes back what another says. */
  constructor(...lists: readonly (readonly string[])[]) {
    this.#lists = lists.map((patterns) => patterns.flatMap(parseRule));
  }

  /** Whether a path is ignored by itself; the caller has looked at the folders above it. */
  ignores(path: string, isFolder: boolean): boolean {
    const parts = path.split('/');
    return this.#lists.some((rules) => isIgnoredBy(rules, parts, isFolder));
  }

  /** Whether a path or a folder above it is ignored. */
  ignoresWithin(path: string, isFolder: boolean): boolean {
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
      if (this.ignores(path.slice(0, at), true)) return true;
    }
    return this.ignores(path, isFolder);
  }
}

function isIgnoredBy(rules: readonly Rule[], parts: readonly string[], isFolder: boolean): boolean {
  let isIgnored = false;
  for (const rule of rules) {
    if (rule.isNegated !== isIgnored || (rule.isFolderOnly && !isFolder)) continue;
    if (matches(rule.parts, parts)) isIgnored = !isIgnored;
  }
  return isIgnored;
}

function parseRule(line: string): Rule[] {
  const [, negation, pattern = ''] = /^(!?)(.*)$/s.exec(line.trim()) ?? [];
  const parts = pattern.split('/').filter((part) => part !== '');
  if (parts.length === 0 || line.trim().startsWith('#')) return [];
  const isBound = parts.length > 1 || pattern.startsWith('/');
  if (parts.length > 1 && parts.at(-1) === '**') parts.push('*'); // what is inside, not the folder itself
  const tokens = (isBound ? parts : ['**', ...parts]).map(parsePart);
  return [{ isNegated: negation === '!', isFolderOnly: pattern.endsWith('/'), parts: tokens }];
}

function parsePart(part: string): Token {
  if (part === '**') return 'any';
  if (!/[*?[\\]/.test(part)) return (name) => name === part;
  const tokens = parseName(part);
  return (name) => matches(tokens, name);
}

/**
 * Matches a sequence with wild cards against one without. Only the last wild card met so far is ever tried again, which is
 * enough, and keeps it from taking exponential time.
 */
function matches(tokens: readonly Token[], units: string | readonly string[]): boolean {
  let [at, place, lastWild, retryFrom] = [0, 0, -1, 0];
  while (place < units.length) {
    const token = tokens[at];
    if (token === 'any') {
      lastWild = at++;
      retryFrom = place;
    } else if (token?.(units[place] ?? '') === true) {
      at++;
      place++;
    } else if (lastWild >= 0) {
      at = lastWild + 1;
      place = ++retryFrom;
    } else return false;
  }
  while (tokens[at] === 'any') at++;
  return at === tokens.length;
}

function parseName(pattern: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const end = pattern[at] === '[' ? pattern.indexOf(']', at + 2) : -1;
    if (pattern[at] === '*') tokens.push('any');
    else if (pattern[at] === '?') tokens.push(() => true);
    else if (end > 0) {
      tokens.push(parseClass(pattern.slice(at + 1, end)));
      at = end;
    } else {
      if (pattern[at] === '\\' && at + 1 < pattern.length) at++;
      const char = pattern[at];
      tokens.push((found) => found === char);
    }
  }
  return tokens;
}

function parseClass(text: string): Token {
  const isNegated = /^[!^]/.test(text);
  const ranges = [...text.slice(isNegated ? 1 : 0).matchAll(/(.)(?:-(.))?/gs)].map(([, from = '', to = from]) => ({
    from,
    to,
  }));
  return (char) => ranges.some(({ from, to }) => from <= char && char <= to) !== isNegated;
}
