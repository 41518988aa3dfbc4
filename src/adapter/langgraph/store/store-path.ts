import type { JsonValue } from '../../../core/value/json.ts';

const STEPS = /\[[^\]]*\]|[^.[\]]+/g;

/** The parts of a value that a path of LangGraph's leads to: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*`; `$` is the whole. */
export function selectAtPath(value: JsonValue, path: string): JsonValue[] {
  let found = [value];
  for (const step of path.match(STEPS) ?? []) if (step !== '$') found = found.flatMap((one) => takeStep(one, step));
  return found;
}

function takeStep(value: JsonValue, step: string): readonly JsonValue[] {
  if (typeof value !== 'object' || value === null) return [];
  if (step === '*' || step === '[*]') return Object.values(value);
  const place = step.startsWith('[') ? Number(step.slice(1, -1)) : undefined;
  if (place !== undefined) return Array.isArray(value) ? value.slice(place, place + 1 || undefined) : [];
  const fields = value as { readonly [key: string]: JsonValue };
  return Object.hasOwn(fields, step) ? [fields[step] as JsonValue] : [];
}
