import { FUNCTIONS } from './functions.ts';
import {
  type Arithmetic,
  type Binary,
  type Comparison,
  EVERY,
  type Expression,
  type Path,
  type PathKey,
} from './parse-expression.ts';

/** What the first word of a path stands for: `input`, `steps`, `item`, `state`, ... */
export type Lookup = (root: string) => unknown;

/** The value of an expression. What is not there is undefined; no code of the values is ever called. */
export function evaluate(expression: Expression, lookup: Lookup): unknown {
  switch (expression.kind) {
    case 'literal':
      return expression.value;
    case 'list':
      return evaluateAll(expression.items, lookup);
    case 'path':
      return follow(expression.keys, lookup);
    case 'call':
      return call(expression.name, evaluateAll(expression.items, lookup));
    case 'not':
      return !isTrue(evaluate(expression.of, lookup));
    case 'and':
      return isTrue(evaluate(expression.left, lookup)) && isTrue(evaluate(expression.right, lookup));
    case 'or':
      return isTrue(evaluate(expression.left, lookup)) || isTrue(evaluate(expression.right, lookup));
    default:
      return combine(expression, evaluate(expression.left, lookup), evaluate(expression.right, lookup));
  }
}

type Combination = Binary<'compare', Comparison> | Binary<'compute', Arithmetic>;

/** Only numbers can be computed with; what is no number comes to nothing. */
function combine(expression: Combination, left: unknown, right: unknown): unknown {
  if (expression.kind === 'compare') return COMPARED[expression.sign](left, right);
  return typeof left === 'number' && typeof right === 'number' ? COMPUTED[expression.sign](left, right) : undefined;
}

function call(name: string, values: readonly unknown[]): unknown {
  return FUNCTIONS.get(name)?.run(...values);
}

function evaluateAll(items: readonly Expression[], lookup: Lookup): unknown[] {
  return items.map((item) => evaluate(item, lookup));
}

/** Whether a value counts as yes: everything but false, null, nothing, 0 and the empty string. */
export function isTrue(value: unknown): boolean {
  return Boolean(value);
}

function follow([root, ...keys]: Path, lookup: Lookup): unknown {
  let values = [lookup(root)];
  let isMany = false;
  for (const key of keys) {
    values = values.flatMap((value) => (key === EVERY ? itemsOf(value) : [step(value, key)]));
    isMany ||= key === EVERY;
  }
  return isMany ? values.filter((value) => value !== undefined) : values[0];
}

function itemsOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value !== 'object' || value === null) return [];
  return value instanceof Map || value instanceof Set ? [...value.values()] : Object.values(value);
}

/** Only what a value has of its own: the names of its class are code, not data. */
function step(value: unknown, key: Exclude<PathKey, typeof EVERY>): unknown {
  if (typeof value === 'string') return key === 'length' ? value.length : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  if (value instanceof Map) return value.get(key);
  if (Array.isArray(value) && typeof key === 'number') return Number.isInteger(key) ? value.at(key) : undefined;
  return Object.hasOwn(value, key) ? (value as Record<string | number, unknown>)[key] : undefined;
}

const COMPUTED: { readonly [Sign in Arithmetic]: (left: number, right: number) => number } = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '%': (left, right) => left % right,
};

const COMPARED: { readonly [Sign in Comparison]: (left: unknown, right: unknown) => boolean } = {
  '==': isEqual,
  '!=': (left, right) => !isEqual(left, right),
  in: isIn,
  '<': (left, right) => orderOf(left, right) < 0,
  '<=': (left, right) => orderOf(left, right) <= 0,
  '>': (left, right) => orderOf(left, right) > 0,
  '>=': (left, right) => orderOf(left, right) >= 0,
};

/** Nothing and null are the same; other values are compared as they are, without conversions. */
function isEqual(left: unknown, right: unknown): boolean {
  return (toPlain(left) ?? null) === (toPlain(right) ?? null);
}

/** Dates are compared as what they are written as. */
function toPlain(value: unknown): unknown {
  return value instanceof Date ? value.toJSON() : value;
}

function isIn(value: unknown, container: unknown): boolean {
  if (container instanceof Set) return container.has(value);
  if (Array.isArray(container)) return container.some((item) => isEqual(item, value));
  return typeof container === 'string' && typeof value === 'string' && container.includes(value);
}

/** Numbers with numbers, strings with strings; anything else has no order, and compares with nothing. */
function orderOf(left: unknown, right: unknown): number {
  const [one, other] = [toPlain(left), toPlain(right)];
  const areNumbers = isNumber(one) && isNumber(other);
  const areTexts = typeof one === 'string' && typeof other === 'string';
  if (!areNumbers && !areTexts) return Number.NaN;
  if (one === other) return 0;
  if (one < other) return -1;
  return one >= other ? Number(one > other) : Number.NaN; // NaN has no order either
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}
