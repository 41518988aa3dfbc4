import { InvalidInputError } from '../../../core/errors.ts';
import { evaluate, type Lookup } from '../../../core/expression/evaluate.ts';
import { type Expression, parseExpression } from '../../../core/expression/parse-expression.ts';
import { toJson } from '../../../core/value/to-json.ts';

/** Data with references in it, parsed: `{{ ... }}` inside texts. */
export type Template =
  | { readonly kind: 'constant'; readonly value: unknown }
  | { readonly kind: 'expression'; readonly expression: Expression }
  | { readonly kind: 'text'; readonly parts: readonly (string | Expression)[] }
  | { readonly kind: 'list'; readonly items: readonly Template[] }
  | { readonly kind: 'object'; readonly fields: readonly (readonly [string, Template])[] };

/** What stands inside a reference: strings in quotes, or single characters that do not end it. */
const INSIDE = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^}"']|\}(?!\})/sy;
/** More than any model reads: references to references must not grow without end. */
const MAX_TEXT_CHARACTERS = 2 ** 26;

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
  for (let at = text.indexOf('{{'); at >= 0; at = text.indexOf('{{', end)) {
    if (at > end) parts.push(text.slice(end, at));
    end = endOfReference(text, at);
    parts.push(parseExpression(text.slice(at + 2, end - 2)));
  }
  if (end < text.length) parts.push(text.slice(end));
  const [first] = parts;
  if (parts.every((part) => typeof part === 'string')) return { kind: 'constant', value: text };
  if (parts.length === 1 && first !== undefined && typeof first !== 'string')
    return { kind: 'expression', expression: first };
  return { kind: 'text', parts };
}

/** Where the reference that begins at `at` is over. Goes over it once; what is never closed is refused, not tried again from the next brace. */
function endOfReference(text: string, at: number): number {
  const inside = new RegExp(INSIDE);
  inside.lastIndex = at + 2;
  let end = inside.lastIndex;
  while (inside.test(text)) end = inside.lastIndex;
  if (text.startsWith('}}', end)) return end + 2;
  throw new InvalidInputError(
    `cannot be understood at character ${at + 1}: "{{" begins a reference that "}}" does not end. Two braces as such are written {{ "{{" }}.`,
    { details: { at } },
  );
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
      return evaluate(template.expression, lookup) ?? null;
    case 'text':
      return renderText(template.parts, lookup);
    case 'list':
      return template.items.map((item) => render(item, lookup));
    case 'object':
      return Object.fromEntries(template.fields.map(([key, field]) => [key, render(field, lookup)]));
  }
}

function renderText(parts: readonly (string | Expression)[], lookup: Lookup): string {
  let text = '';
  for (const part of parts) {
    text += typeof part === 'string' ? part : formatValue(evaluate(part, lookup));
    if (text.length > MAX_TEXT_CHARACTERS)
      throw new InvalidInputError(`The references of one string come to more than ${MAX_TEXT_CHARACTERS} characters.`);
  }
  return text;
}

/** A value as part of a text: texts as they are, nothing as nothing, the rest as JSON. */
export function formatValue(value: unknown): string {
  const given = toJson(value);
  if (typeof given === 'string') return given;
  return given === undefined || given === null ? '' : (JSON.stringify(given, (_, item: unknown) => toJson(item)) ?? '');
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
