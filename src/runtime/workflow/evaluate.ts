import type { Comparison, Expression } from './expression.ts';

/** What the first word of a path stands for: `input`, `steps`, `item`, ... */
export type Lookup = (root: string) => unknown;

/** The value of an expression. What is not there is undefined; nothing is ever called. */
export function evaluate(expression: Expression, lookup: Lookup): unknown {
  switch (expression.kind) {
    case 'literal':
      return expression.value;
    case 'list':
      return expression.items.map((item) => evaluate(item, lookup));
    case 'path':
      return follow(expression.keys, lookup);
    case 'not':
      return !isTrue(evaluate(expression.of, lookup));
    case 'and':
      return isTrue(evaluate(expression.left, lookup)) && isTrue(evaluate(expression.right, lookup));
    case 'or':
      return isTrue(evaluate(expression.left, lookup)) || isTrue(evaluate(expression.right, lookup));
    case 'compare':
      return compare(expression.comparison, evaluate(expression.left, lookup), evaluate(expression.right, lookup));
  }
}

/** Whether a value counts as yes: everything but false, null, nothing, 0 and the empty text. */
export function isTrue(value: unknown): boolean {
  return Boolean(value);
}

function follow([root, ...keys]: readonly [string, ...(string | number)[]], lookup: Lookup): unknown {
  return keys.reduce<unknown>(step, lookup(root));
}

/** Only what a value has of its own: the names of its class are code, not data. */
function step(value: unknown, key: string | number): unknown {
  if (typeof value === 'string') return key === 'length' ? value.length : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  if (value instanceof Map) return value.get(key);
  return Object.hasOwn(value, key) ? (value as Record<string | number, unknown>)[key] : undefined;
}

function compare(comparison: Comparison, left: unknown, right: unknown): boolean {
  switch (comparison) {
    case '==':
      return isEqual(left, right);
    case '!=':
      return !isEqual(left, right);
    case 'in':
      return isIn(left, right);
    default:
      return isOrdered(comparison, left, right);
  }
}

/** Nothing and null are the same; other values are compared as they are, without conversions. */
function isEqual(left: unknown, right: unknown): boolean {
  return (left ?? null) === (right ?? null);
}

function isIn(value: unknown, container: unknown): boolean {
  if (Array.isArray(container)) return container.some((item) => isEqual(item, value));
  return typeof container === 'string' && typeof value === 'string' && container.includes(value);
}

/** Numbers with numbers, texts with texts; anything else has no order. */
function isOrdered(comparison: '<' | '<=' | '>' | '>=', left: unknown, right: unknown): boolean {
  const areNumbers = typeof left === 'number' && typeof right === 'number';
  const areTexts = typeof left === 'string' && typeof right === 'string';
  if (!areNumbers && !areTexts) return false;
  if (comparison === '<') return left < right;
  if (comparison === '<=') return left <= right;
  return comparison === '>' ? left > right : left >= right;
}
