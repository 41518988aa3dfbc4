import { InvalidInputError } from '../../core/errors.ts';

/** How two values may be compared. */
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in';

/** What a condition or a reference says, parsed. It can look things up and compare them; it cannot call or change anything. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'path'; readonly keys: readonly [string, ...(string | number)[]] }
  | { readonly kind: 'not'; readonly of: Expression }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'compare';
      readonly comparison: Comparison;
      readonly left: Expression;
      readonly right: Expression;
    };

type Token = { readonly kind: 'number' | 'text' | 'word' | 'sign' | 'end'; readonly text: string; readonly at: number };

const TOKEN =
  /\s*(?:(-?\d+(?:\.\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([A-Za-z_][\w-]*)|(==|!=|<=|>=|[<>()[\].,]))/y;
const KINDS = ['number', 'text', 'word', 'sign'] as const;
const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=', 'in']);
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
    if (!this.#accept('not')) return this.#compare();
    if (++this.#depth > MAX_DEPTH) throw this.#unexpected('less nesting');
    const of = this.#not();
    this.#depth--;
    return { kind: 'not', of };
  }

  #compare(): Expression {
    const left = this.#operand();
    const { kind, text } = this.#next;
    if (kind === 'text' || !COMPARISONS.has(text)) return left;
    this.#at++;
    return { kind: 'compare', comparison: text as Comparison, left, right: this.#operand() };
  }

  #operand(): Expression {
    const token = this.#next;
    if (this.#accept('(')) return this.#nested(() => this.#or(), ')');
    if (this.#accept('[')) return this.#nested(() => this.#list(), ']');
    this.#at++;
    if (token.kind === 'number') return { kind: 'literal', value: Number(token.text) };
    if (token.kind === 'text') return { kind: 'literal', value: unquote(token.text) };
    if (token.kind !== 'word' || RESERVED.has(token.text)) {
      this.#at--;
      throw this.#unexpected('a value');
    }
    const constant = CONSTANTS.get(token.text);
    return constant === undefined ? this.#path(token.text) : { kind: 'literal', value: constant };
  }

  #nested(inner: () => Expression, close: string): Expression {
    if (++this.#depth > MAX_DEPTH) throw this.#unexpected('less nesting');
    const expression = inner();
    this.#depth--;
    this.#expect(close);
    return expression;
  }

  #list(): Expression {
    const items: Expression[] = [];
    while (this.#next.text !== ']' || this.#next.kind === 'text') {
      items.push(this.#operand());
      if (!this.#accept(',')) break;
    }
    return { kind: 'list', items };
  }

  #path(root: string): Expression {
    const keys: [string, ...(string | number)[]] = [root];
    for (;;) {
      if (this.#accept('.')) keys.push(this.#key());
      else if (this.#accept('[')) {
        keys.push(this.#index());
        this.#expect(']');
      } else return { kind: 'path', keys };
    }
  }

  #key(): string {
    const { kind, text } = this.#next;
    if (kind !== 'word' && kind !== 'number') throw this.#unexpected('a name');
    this.#at++;
    return text;
  }

  #index(): string | number {
    const { kind, text } = this.#next;
    if (kind !== 'text' && kind !== 'number') throw this.#unexpected('a number or a text in quotes');
    this.#at++;
    return kind === 'text' ? unquote(text) : Number(text);
  }

  #unexpected(wanted: string): InvalidInputError {
    return refuse(this.#text, this.#next.at, wanted);
  }
}

const RESERVED: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in']);

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(TOKEN);
  const end = text.trimEnd().length;
  while (pattern.lastIndex < end) {
    const at = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) throw refuse(text, at + (text.slice(at).length - text.slice(at).trimStart().length), 'a value');
    const which = match.slice(1).findIndex((group) => group !== undefined);
    const found = match[which + 1] ?? '';
    tokens.push({ kind: KINDS[which] ?? 'sign', text: found, at: pattern.lastIndex - found.length });
  }
  return tokens;
}

function unquote(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, '$1');
}

function refuse(text: string, at: number, wanted: string): InvalidInputError {
  const found = at >= text.trimEnd().length ? 'the end' : `"${text.slice(at, at + 12)}"`;
  return new InvalidInputError(
    `cannot be understood at character ${at + 1} of "${text}": expected ${wanted}, found ${found}.`,
    {
      details: { expression: text, at },
    },
  );
}
