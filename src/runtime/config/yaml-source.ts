import {
  type Alias,
  Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  parseDocument,
} from 'yaml';
import { accepts, type OptionCheck } from '../../core/options.ts';
import { formatPath, type KeyPath, type Problem } from './problem.ts';

/** A document whose problems can be placed. */
export interface ProblemSource {
  /** The data, as plain values. */
  readonly data: unknown;
  /** What the text itself has wrong, before anyone looked at its meaning. */
  readonly problems: readonly Problem[];
  /** Whether it is a text, which may be any file: another file may have named it, or a link, so only what is ours is quoted. */
  readonly isText: boolean;
  /** Describes a problem with the value at a path, or with the key itself. */
  place(path: KeyPath, message: string, options?: { readonly key?: string; readonly suggestion?: string }): Problem;
}

/** Data that was written in code: problems have a path and no line. */
export function dataSource(data: unknown): ProblemSource {
  return {
    data,
    problems: [],
    isText: false,
    place: (path, message, { key, suggestion } = {}) => ({
      path: formatPath(key === undefined ? path : [...path, key]),
      message,
      ...(suggestion !== undefined && { suggestion }),
    }),
  };
}

/** Accepts what YAML is read from. */
export const yamlText: OptionCheck = accepts(
  "YAML as a string, such as readFileSync(path, 'utf8')",
  (value) => typeof value === 'string',
);

/** Reads YAML; problems found in its data later can be placed by line and column. */
export function yamlSource(text: string): ProblemSource {
  const { document, problems, lineCounter } = yamlDocument(text);
  return {
    data: problems.length === 0 ? document.toJS() : undefined,
    problems,
    isText: true,
    place(path, message, { key, suggestion } = {}) {
      const { line, col } = lineCounter.linePos(offsetOf(document, path, key));
      const at = formatPath(key === undefined ? path : [...path, key]);
      return { path: at, message, line, column: col, ...(suggestion !== undefined && { suggestion }) };
    },
  };
}

type YamlDocument = {
  readonly document: Document;
  readonly problems: readonly Problem[];
  readonly lineCounter: LineCounter;
};

/** Parses YAML. Only a document without problems can be turned into data, or written again. */
export function yamlDocument(text: string): YamlDocument {
  const lineCounter = new LineCounter();
  const place = (offset: number, message: string): Problem => {
    const { line, col } = lineCounter.linePos(offset);
    return { path: '', message, line, column: col };
  };
  const tooDeep = findTooDeep(text);
  if (tooDeep !== undefined) return { document: new Document(), problems: [tooDeep], lineCounter };
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const problems = [
    // A tag that is not known would be left out, and its value taken for something else.
    ...[...document.errors, ...document.warnings].map(({ code, message, pos }) =>
      place(pos[0], WORDS[code] ?? message),
    ),
    ...new BadParts(document).found.map(([offset, message]) => place(offset, message)),
  ];
  if (problems.length === 0 && unfoldsTooFar(document))
    problems.push(place(0, 'has aliases that unfold to too many values. Write the values out.'));
  return { document, problems, lineCounter };
}

/** The parser of the package calls itself for each level, and so does what looks at the data. */
const MAX_DEPTH = 100;

/** Where the package speaks to programmers, or quotes the text. */
const WORDS: Readonly<Record<string, string>> = {
  BAD_ALIAS: 'this is no name for an anchor or alias. Quote it if it is text.',
  BAD_DIRECTIVE: 'this is no directive of YAML.',
  BAD_DQ_ESCAPE: 'this escape is not known. Write a backslash as two, or use single quotes.',
  TAG_RESOLVE_FAILED: 'this tag is not known, or does not fit its value. Quote it if it is text.',
  UNEXPECTED_TOKEN: 'this is not YAML here. Quote it if it is text.',
  MULTIPLE_DOCS:
    'begins a second document. A file holds one: remove the line "---", or put what follows into another file.',
};

/** Looks where the text goes too deep, before anything follows it there: the package takes ever longer for each level. */
export function findTooDeep(text: string): Problem | undefined {
  const parser = new Parser();
  let read = '';
  for (const lexeme of new Lexer().lex(text)) {
    for (const _ of parser.next(lexeme)); // the levels that are open are on its stack
    if (parser.stack.length > MAX_DEPTH) {
      const lines = read.split('\n');
      const message = `is nested more than ${MAX_DEPTH} levels deep. Write it with fewer levels.`;
      return { path: '', message, line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
    }
    if (!MARKS.has(lexeme)) read += lexeme;
  }
  return undefined;
}

/** What the lexer says beside the text: a document begins, a value ends, a scalar follows. */
const MARKS = new Set(['\u0002', '\u0018', '\u001f']);

/** The package looks at the whole document for each. */
const MAX_ALIASES = 1_000;

type Anchored = { readonly node: Node; levels?: number };

/**
 * Aliases of what is not there, of what they stand in, or of what makes the data too deep; keys that are no text, or that nothing keeps. One walk through the
 * document: what an alias repeats was measured before, so that a chain of aliases takes no longer than its text.
 */
class BadParts {
  readonly found: [offset: number, message: string][] = [];
  /** What has a name so far; without `levels` while it is walked through. */
  readonly #anchored = new Map<string, Anchored>();
  #aliases = 0;
  #isTooLarge = false;

  constructor(document: Document) {
    this.#measure(document.contents);
  }

  /** How many lists and maps are in one another there. */
  #measure(part: unknown): number {
    if (isAlias(part)) return this.#measureAlias(part);
    if (isPair(part)) return this.#measurePair(part);
    if (!isScalar(part) && !isCollection(part)) return 0;
    const anchored: Anchored = { node: part };
    if (part.anchor !== undefined) this.#anchored.set(part.anchor, anchored);
    let levels = 0;
    if (isCollection(part)) for (const item of part.items) levels = Math.max(levels, this.#measure(item) + 1);
    anchored.levels = levels;
    return levels;
  }

  #measurePair({ key, value }: Pair): number {
    const levels = this.#measure(key);
    const target = isAlias(key) ? this.#anchored.get(key.source)?.node : key;
    if (isCollection(target)) this.#report(key, 'a list or a map cannot be a key. Quote it if it is text.');
    // Schemas leave it out, and an assignment makes a prototype of it.
    if (isScalar(target) && target.value === '__proto__')
      this.#report(key, '"__proto__" cannot be a key. Choose another name.');
    return Math.max(levels, this.#measure(value));
  }

  #measureAlias(alias: Alias): number {
    const { source } = alias;
    const { levels, node } = this.#anchored.get(source) ?? {};
    this.#aliases++;
    if (node === undefined)
      this.#report(alias, 'this alias repeats a value that is nowhere before it. Quote it if it is text.');
    else if (levels === undefined)
      this.#report(alias, 'this alias stands inside the value that it repeats. Write the values out.');
    else if (this.#aliases > MAX_ALIASES)
      this.#reportOnce(alias, `is one of more than ${MAX_ALIASES} aliases. Write the values out.`);
    else if (levels < MAX_DEPTH) return levels;
    else this.#reportOnce(alias, `is nested more than ${MAX_DEPTH} levels deep. Write it with fewer levels.`);
    return 0;
  }

  #reportOnce(alias: Alias, message: string): void {
    if (!this.#isTooLarge) this.#report(alias, message);
    this.#isTooLarge = true;
  }

  #report(part: unknown, message: string): void {
    this.found.push([(isNode(part) ? part.range?.[0] : undefined) ?? 0, message]);
  }
}

function unfoldsTooFar(document: Document): boolean {
  try {
    document.toJS();
    return false;
  } catch (error) {
    if (error instanceof ReferenceError) return true;
    throw error;
  }
}

/** Where a part of the text begins; of what is missing, where it should have been. */
function offsetOf(document: Document, path: KeyPath, key: string | undefined): number {
  for (let depth = path.length; depth >= 0; depth--) {
    const node: unknown = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
    if (!isNode(node)) continue;
    const found = depth === path.length && key !== undefined ? keyOf(node, key) : undefined;
    return (found ?? node).range?.[0] ?? 0;
  }
  return 0;
}

function keyOf(node: Node, key: string): Node | undefined {
  if (!isMap(node)) return undefined;
  const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === key);
  return isNode(pair?.key) ? pair.key : undefined;
}
