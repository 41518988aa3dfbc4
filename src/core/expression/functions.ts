import { eachPart } from '../value/parts.ts';

/** A function of expressions. It costs no more than reading its values once, and never makes more than it was given. */
type ExpressionFunction = { readonly arity: number; readonly run: (...values: readonly unknown[]) => unknown };

/** The functions that expressions have. */
export const FUNCTIONS: ReadonlyMap<string, ExpressionFunction> = new Map([
  ['contains', { arity: 2, run: (value, text) => typeof text === 'string' && contains(value, text) }],
  ['starts_with', { arity: 2, run: (value, text) => areTexts(value, text) && String(value).startsWith(String(text)) }],
  ['lower', { arity: 1, run: (value) => (typeof value === 'string' ? value.toLowerCase() : undefined) }],
  ['sum', { arity: 1, run: (value) => numbersOf(value).reduce((sum, number) => sum + number, 0) }],
  ['min', { arity: 1, run: (value) => leastOf(value, 1) }],
  ['max', { arity: 1, run: (value) => leastOf(value, -1) }],
]);

function areTexts(...values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === 'string');
}

/** Whether a string anywhere in a value has the text in it. */
function contains(value: unknown, text: string): boolean {
  for (const part of eachPart(value, new Set())) if (typeof part === 'string' && part.includes(text)) return true;
  return false;
}

function numbersOf(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'number') : [];
}

/** The least number times the sign; nothing of an empty list. */
function leastOf(value: unknown, sign: 1 | -1): number | undefined {
  let least: number | undefined;
  for (const number of numbersOf(value)) if (least === undefined || sign * number < sign * least) least = number;
  return least;
}
