import { termsOf } from '../../../memory/text/terms.ts';
import type { StoredItem } from './store-items.ts';

/** The steps of a path: names, and places in brackets. */
const STEPS = /\[[^\]]*\]|[^.[\]]+/g;

/** Words that make an item half as good an answer as one that says only what was asked. */
const LONG_WORDS = 100;

/** The words that a query finds an item by: all of its value, those of the fields that were named, or none. */
export function wordsOfItem({ value, index }: StoredItem): ReadonlySet<string> {
  const parts = index === undefined ? [value] : (index || []).flatMap((path) => selectAtPath(value, path));
  return new Set(termsOf(parts.flatMap(textsIn).join('\n')));
}

/** The texts and numbers of a value, but not the names of its fields and classes. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (value instanceof Map || value instanceof Set) return [...value].flatMap(textsIn);
  const texts = Object.entries(value).flatMap(([name, part]) => (name.startsWith('lc_') ? [] : textsIn(part)));
  return value instanceof Error ? [value.message, ...texts] : texts;
}

/**
 * Ranks items by the words they share with a query, rare ones first: answers places in the list, best first and of equal ones the
 * last first, with scores up to 1. What shares no word is not among them.
 */
export function rankByWords(
  items: readonly ReadonlySet<string>[],
  query: string,
): { readonly at: number; readonly score: number }[] {
  const weights = new Map(
    termsOf(query).map((word) => {
      const count = items.filter((words) => words.has(word)).length;
      return [word, Math.log(1 + items.length / Math.max(1, count))];
    }),
  );
  const found = items.flatMap((words, at) => {
    const shared = [...weights].reduce((sum, [word, weight]) => sum + (words.has(word) ? weight : 0), 0);
    return shared === 0 ? [] : [{ at, score: shared / (1 + words.size / LONG_WORDS) }];
  });
  const best = found.reduce((most, { score }) => Math.max(most, score), 0);
  const ranked = found.map(({ at, score }) => ({ at, score: score / best }));
  return ranked.sort((a, b) => b.score - a.score || b.at - a.at);
}

/** The parts of a value that a path of LangGraph's leads to: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*`; `$` is the whole. */
function selectAtPath(value: unknown, path: string): unknown[] {
  let found = [value];
  for (const step of path.match(STEPS) ?? []) if (step !== '$') found = found.flatMap((one) => takeStep(one, step));
  return found;
}

function takeStep(value: unknown, step: string): readonly unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  if (step === '*' || step === '[*]') return Object.values(value);
  const place = step.startsWith('[') ? Number(step.slice(1, -1)) : undefined;
  if (place !== undefined) return Array.isArray(value) ? value.slice(place, place + 1 || undefined) : [];
  return Object.hasOwn(value, step) ? [(value as { readonly [key: string]: unknown })[step]] : [];
}
