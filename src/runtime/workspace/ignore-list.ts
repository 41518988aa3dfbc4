type Rule = {
  readonly isNegated: boolean;
  readonly isFolderOnly: boolean;
  /** What each part of a path must be like; `**` stands for any number of parts. */
  readonly parts: readonly string[];
};

const ANY_PARTS = '**';

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
    if (matchParts(rule.parts, parts)) isIgnored = !isIgnored;
  }
  return isIgnored;
}

function parseRule(line: string): Rule[] {
  const text = line.trim();
  if (text === '' || text.startsWith('#')) return [];
  const isNegated = text.startsWith('!');
  const pattern = isNegated ? text.slice(1) : text;
  const isFolderOnly = pattern.endsWith('/');
  const bare = pattern.replace(/^\/+/, '').replace(/\/+$/, '');
  if (bare === '') return [];
  const isBound = pattern.startsWith('/') || bare.includes('/');
  const parts = bare.split('/').filter((part) => part !== '');
  if (parts.length > 1 && parts.at(-1) === ANY_PARTS) parts.push('*'); // what is inside, not the folder itself
  return [{ isNegated, isFolderOnly, parts: isBound ? parts : [ANY_PARTS, ...parts] }];
}

function matchParts(pattern: readonly string[], parts: readonly string[]): boolean {
  return matchWild(pattern.length, parts.length, {
    isWild: (at) => pattern[at] === ANY_PARTS,
    fits: (at, place) => matchName(pattern[at] ?? '', parts[place] ?? ''),
  });
}

/**
 * Matches a sequence with wild cards against one without. Only the last wild card met so far is ever tried again, which is
 * enough, and keeps it from taking exponential time.
 */
function matchWild(
  patternLength: number,
  length: number,
  { isWild, fits }: { isWild: (at: number) => boolean; fits: (at: number, place: number) => boolean },
): boolean {
  let at = 0;
  let place = 0;
  let lastWild = -1;
  let retryFrom = 0;
  while (place < length) {
    if (at < patternLength && isWild(at)) {
      lastWild = at++;
      retryFrom = place;
    } else if (at < patternLength && fits(at, place)) {
      at++;
      place++;
    } else if (lastWild >= 0) {
      at = lastWild + 1;
      place = ++retryFrom;
    } else return false;
  }
  while (at < patternLength && isWild(at)) at++;
  return at === patternLength;
}

type Token = { readonly kind: 'any' | 'one' } | { readonly kind: 'char'; readonly char: string } | CharClass;
type CharClass = { readonly kind: 'class'; readonly isNegated: boolean; readonly ranges: readonly [string, string][] };

const tokensOf = new Map<string, readonly Token[]>();

function matchName(pattern: string, name: string): boolean {
  let tokens = tokensOf.get(pattern);
  if (tokens === undefined) {
    tokens = parseName(pattern);
    if (tokensOf.size > MAX_KEPT_PATTERNS) tokensOf.clear();
    tokensOf.set(pattern, tokens);
  }
  const known = tokens;
  return matchWild(known.length, name.length, {
    isWild: (at) => known[at]?.kind === 'any',
    fits: (at, place) => fitsToken(known[at], name[place] ?? ''),
  });
}

const MAX_KEPT_PATTERNS = 1000;

function fitsToken(token: Token | undefined, char: string): boolean {
  switch (token?.kind) {
    case 'char':
      return token.char === char;
    case 'class':
      return token.ranges.some(([from, to]) => from <= char && char <= to) !== token.isNegated;
    default:
      return token?.kind === 'one';
  }
}

function parseName(pattern: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at] as string;
    const end = char === '[' ? pattern.indexOf(']', at + 2) : -1;
    if (char === '*') tokens.push({ kind: 'any' });
    else if (char === '?') tokens.push({ kind: 'one' });
    else if (end > 0) {
      tokens.push(parseClass(pattern.slice(at + 1, end)));
      at = end;
    } else if (char === '\\' && at + 1 < pattern.length) tokens.push({ kind: 'char', char: pattern[++at] as string });
    else tokens.push({ kind: 'char', char });
  }
  return tokens;
}

function parseClass(text: string): CharClass {
  const isNegated = text.startsWith('!') || text.startsWith('^');
  const ranges: [string, string][] = [];
  for (let at = isNegated ? 1 : 0; at < text.length; at++) {
    const from = text[at] as string;
    const isRange = text[at + 1] === '-' && at + 2 < text.length;
    ranges.push([from, isRange ? (text[at + 2] as string) : from]);
    if (isRange) at += 2;
  }
  return { kind: 'class', isNegated, ranges };
}
