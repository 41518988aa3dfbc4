import { ForeignInstance } from '../core/value/class-codec.ts';
import { SecretRef } from '../core/value/secret-ref.ts';

/** A value of a state as JSON for people: dates, maps and the like as texts, lists and objects. Not meant to be read back. */
export function toJsonForm(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => toJsonForm(item) ?? null);
  // fromEntries makes own fields, also of one that is called `__proto__`.
  return (
    formatSpecial(value) ?? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toJsonForm(item)]))
  );
}

/** What is best shown as the text it gives. */
const TEXT_CLASSES = [SecretRef, URL, RegExp, Error];

function formatSpecial(value: object): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (TEXT_CLASSES.some((known) => value instanceof known)) return String(value);
  if (value instanceof ForeignInstance) return { $class: value.tag, data: toJsonForm(value.data) ?? null };
  if (value instanceof Set) return [...value].map((item) => toJsonForm(item) ?? null);
  if (value instanceof Map) return formatMap(value);
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  return undefined;
}

function formatMap(map: ReadonlyMap<unknown, unknown>): unknown {
  const entries = [...map].map(([key, item]): [unknown, unknown] => [toJsonForm(key), toJsonForm(item)]);
  return entries.every(([key]) => typeof key === 'string') ? Object.fromEntries(entries) : entries;
}

/** A value on one line. */
export function formatValue(value: unknown): string {
  return JSON.stringify(toJsonForm(value)) ?? 'undefined';
}

/** What JSON says, or the words themselves. */
export function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
