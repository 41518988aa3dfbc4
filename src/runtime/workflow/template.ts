import { evaluate, type Lookup } from './evaluate.ts';
import { type Expression, parseExpression } from './expression.ts';

/** Data with references in it, parsed: `{{ ... }}` inside texts. */
export type Template =
  | { readonly kind: 'constant'; readonly value: unknown }
  | { readonly kind: 'expression'; readonly expression: Expression }
  | { readonly kind: 'text'; readonly parts: readonly (string | Expression)[] }
  | { readonly kind: 'list'; readonly items: readonly Template[] }
  | { readonly kind: 'object'; readonly fields: readonly (readonly [string, Template])[] };

const REFERENCE = /\{\{((?:"[^"]*"|'[^']*'|[^}"']|\}(?!\}))*)\}\}/g;

/** Parses data; throws an InvalidInputError for a reference that cannot be understood. */
export function parseTemplate(value: unknown): Template {
  if (typeof value === 'string') return parseText(value);
  if (Array.isArray(value)) {
    const items = value.map(parseTemplate);
    return items.every(isConstant) ? { kind: 'constant', value } : { kind: 'list', items };
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype)
    return { kind: 'constant', value };
  const fields = Object.entries(value).map(([key, field]) => [key, parseTemplate(field)] as const);
  return fields.every(([, field]) => isConstant(field)) ? { kind: 'constant', value } : { kind: 'object', fields };
}

function isConstant({ kind }: Template): boolean {
  return kind === 'constant';
}

function parseText(text: string): Template {
  const parts: (string | Expression)[] = [];
  let end = 0;
  for (const match of text.matchAll(REFERENCE)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(parseExpression(match[1] ?? ''));
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  const [first] = parts;
  if (parts.every((part) => typeof part === 'string')) return { kind: 'constant', value: text };
  if (parts.length === 1 && first !== undefined && typeof first !== 'string')
    return { kind: 'expression', expression: first };
  return { kind: 'text', parts };
}

/** Parses a condition; the braces of a reference may be left out. */
export function parseCondition(text: string): Expression {
  const [, inner] = /^\s*\{\{(.*)\}\}\s*$/s.exec(text) ?? [];
  return parseExpression(inner ?? text);
}

/** Puts values in the place of references. A text that is one reference becomes its value, whatever that is. */
export function render(template: Template, lookup: Lookup): unknown {
  switch (template.kind) {
    case 'constant':
      return template.value;
    case 'expression':
      return evaluate(template.expression, lookup);
    case 'text':
      return template.parts
        .map((part) => (typeof part === 'string' ? part : formatValue(evaluate(part, lookup))))
        .join('');
    case 'list':
      return template.items.map((item) => render(item, lookup));
    case 'object':
      return Object.fromEntries(template.fields.map(([key, field]) => [key, render(field, lookup)]));
  }
}

/** A value as part of a text: texts as they are, nothing as nothing, the rest as JSON. */
export function formatValue(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : (JSON.stringify(value) ?? '');
}

/** The expressions of a template, in order. */
export function expressionsOf(template: Template): Expression[] {
  switch (template.kind) {
    case 'constant':
      return [];
    case 'expression':
      return [template.expression];
    case 'text':
      return template.parts.filter((part) => typeof part !== 'string');
    case 'list':
      return template.items.flatMap(expressionsOf);
    case 'object':
      return template.fields.flatMap(([, field]) => expressionsOf(field));
  }
}

/** The paths an expression looks at. */
export function pathsOf(expression: Expression): (readonly [string, ...(string | number)[]])[] {
  switch (expression.kind) {
    case 'literal':
      return [];
    case 'list':
      return expression.items.flatMap(pathsOf);
    case 'path':
      return [expression.keys];
    case 'not':
      return pathsOf(expression.of);
    default:
      return [...pathsOf(expression.left), ...pathsOf(expression.right)];
  }
}
