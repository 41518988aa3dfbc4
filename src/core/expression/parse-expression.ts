import type { InvalidInputError } from '../errors.ts';
import { FUNCTIONS } from './functions.ts';
import { refuse, type Token, tokenize, unquote } from './tokens.ts';

/** How two values may be compared. */
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in';

/** What may be done with two numbers. */
export type Arithmetic = '+' | '-' | '*' | '/' | '%';

/** One step of a path: a field, an index (negative: from the end), or all items of a list. */
export type PathKey = string | number | typeof EVERY;

/** `[*]`: the rest of the path is followed from every item. */
export const EVERY = Symbol('every item');

/** A path: what its first word stands for is looked up. */
export type Path = readonly [string, ...PathKey[]];

/** What a condition or a reference says, parsed. It looks things up, compares and computes; it cannot call code or change anything. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'path'; readonly keys: Path }
  | { readonly kind: 'call'; readonly name: string; readonly items: readonly Expression[] }
  | { readonly kind: 'not'; readonly of: Expression }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | Binary<'compare', Comparison>
  | Binary<'compute', Arithmetic>;

/** A comparison or a computation. */
export type Binary<Kind, Sign> = {
  readonly kind: Kind;
  readonly sign: Sign;
  readonly left: Expression;
  readonly right: Expression;
};

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=', 'in']);
const SUMS: ReadonlySet<string> = new Set(['+', '-']);
const PRODUCTS: ReadonlySet<string> = new Set(['*', '/', '%']);
const RESERVED: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in']);
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
]);
/** Deeper nesting is nobody's condition, and would exhaust the stack. */
const MAX_DEPTH = 50;

/** Parses an expression; throws an InvalidInputError that says where it cannot be understood. */
export function parseExpression(text: string): Expression {
  return new ExpressionParser(text).parse();
}

/** The paths an expression looks at. */
export function pathsOf(expression: Expression): Path[] {
  const paths: Path[] = [];
  collectPaths(expression, paths);
  return paths;
}

function collectPaths(expression: Expression, paths: Path[]): void {
  if (expression.kind === 'path') paths.push(expression.keys);
  else if ('items' in expression) for (const item of expression.items) collectPaths(item, paths);
  else if ('of' in expression) collectPaths(expression.of, paths);
  else if ('left' in expression) {
    collectPaths(expression.left, paths);
    collectPaths(expression.right, paths);
  }
}

class ExpressionParser {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = tokenize(text);
  }

  parse(): Expression {
    const expression = this.#or();
    if (this.#next.kind !== 'end') throw this.#unexpected('the end, "and", "or" or a comparison');
    return expression;
  }

  get #next(): Token {
    return this.#tokens[this.#at] ?? { kind: 'end', text: '', at: this.#text.length };
  }

  #accept(text: string): boolean {
    if (this.#next.text !== text || this.#next.kind === 'text') return false;
    this.#at++;
    return true;
  }

  #acceptOneOf<Sign extends string>(signs: ReadonlySet<string>): Sign | undefined {
    const { kind, text } = this.#next;
    if (kind === 'text' || !signs.has(text)) return undefined;
    this.#at++;
    return text as Sign;
  }

  #expect(text: string): void {
    if (!this.#accept(text)) throw this.#unexpected(`"${text}"`);
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#accept('or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#accept('and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    return this.#accept('not') ? { kind: 'not', of: this.#deeper(() => this.#not()) } : this.#compare();
  }

  #compare(): Expression {
    const left = this.#sum();
    const sign = this.#acceptOneOf<Comparison>(COMPARISONS);
    return sign === undefined ? left : { kind: 'compare', sign, left, right: this.#sum() };
  }

  #sum(): Expression {
    return this.#compute(SUMS, () => this.#compute(PRODUCTS, () => this.#signed()));
  }

  #compute(signs: ReadonlySet<string>, operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const sign = this.#acceptOneOf<Arithmetic>(signs);
      if (sign === undefined) return left;
      left = { kind: 'compute', sign, left, right: operand() };
    }
  }

  #signed(): Expression {
    if (!this.#accept('-')) return this.#operand();
    const left = { kind: 'literal', value: 0 } as const;
    return { kind: 'compute', sign: '-', left, right: this.#deeper(() => this.#signed()) };
  }

  #operand(): Expression {
    const token = this.#next;
    if (this.#accept('(')) return this.#closed(() => this.#or(), ')');
    if (this.#accept('[')) return this.#closed(() => ({ kind: 'list', items: this.#items(']') }), ']');
    if (token.kind === 'sign' || token.kind === 'end' || this.#isReserved(token)) throw this.#unexpected('a value');
    this.#at++;
    if (token.kind === 'number') return { kind: 'literal', value: Number(token.text) };
    if (token.kind === 'text') return { kind: 'literal', value: unquote(token.text) };
    const constant = CONSTANTS.get(token.text);
    if (constant !== undefined) return { kind: 'literal', value: constant };
    return this.#accept('(') ? this.#call(token) : this.#path(token.text);
  }

  #isReserved({ kind, text }: Token): boolean {
    return kind === 'word' && RESERVED.has(text);
  }

  #call({ text: name, at }: Token): Expression {
    const { arity } = FUNCTIONS.get(name) ?? {};
    const known = `one of the functions ${[...FUNCTIONS.keys()].join(', ')}`;
    if (arity === undefined) throw refuse(this.#text, at, known);
    const call = this.#closed(() => ({ kind: 'call' as const, name, items: this.#items(')') }), ')');
    if (call.items.length === arity) return call;
    throw refuse(this.#text, at, `${arity === 1 ? 'one value' : `${arity} values`} in ${name}(...)`);
  }

  #closed<Inner extends Expression>(inner: () => Inner, close: string): Inner {
    const expression = this.#deeper(inner);
    this.#expect(close);
    return expression;
  }

  #deeper<Inner>(inner: () => Inner): Inner {
    if (++this.#depth > MAX_DEPTH) throw this.#unexpected('less nesting');
    const result = inner();
    this.#depth--;
    return result;
  }

  #items(close: string): Expression[] {
    const items: Expression[] = [];
    while (this.#next.text !== close || this.#next.kind === 'text') {
      items.push(this.#or());
      if (!this.#accept(',')) break;
    }
    return items;
  }

  #path(root: string): Expression {
    const keys: [string, ...PathKey[]] = [root];
    for (;;) {
      if (this.#accept('.')) keys.push(this.#key());
      else if (this.#accept('[')) {
        keys.push(this.#index());
        this.#expect(']');
      } else if (this.#next.text === '(' && keys.length > 1)
        throw this.#unexpected(`no method: there are only the functions ${[...FUNCTIONS.keys()].join(', ')}`);
      else return { kind: 'path', keys };
    }
  }

  #key(): string {
    const { kind, text } = this.#next;
    if (kind !== 'word' && kind !== 'number') throw this.#unexpected('a name');
    this.#at++;
    return text;
  }

  #index(): PathKey {
    if (this.#accept('*')) return EVERY;
    const factor = this.#accept('-') ? -1 : 1;
    const { kind, text } = this.#next;
    if (kind !== 'number' && (kind !== 'text' || factor < 0))
      throw this.#unexpected('a number, a string in quotes or *');
    this.#at++;
    return kind === 'text' ? unquote(text) : factor * Number(text);
  }

  #unexpected(wanted: string): InvalidInputError {
    return refuse(this.#text, this.#next.at, wanted);
  }
}
