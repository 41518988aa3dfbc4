import type { JsonValue } from '../../../core/value/json.ts';
import { parseQuery } from '../../../memory/find/query.ts';
import { rank } from '../../../memory/find/ranking.ts';
import type { FoldedMemory } from '../../../memory/log/fold.ts';
import type { MemoryFields } from '../../../memory/storage/memory-record.ts';
import { termsOf } from '../../../memory/text/terms.ts';

/** The steps of a path: names, and places in brackets. */
const STEPS = /\[[^\]]*\]|[^.[\]]+/g;

/** An item as a query sees it: its texts, in one. */
export type Document = { readonly fields: MemoryFields; readonly terms: ReadonlySet<string> };

/** Tags of values that hold others, and which of their arguments does. */
const CONTAINERS: ReadonlyMap<string, number> = new Map([
  ['object', 0],
  ['bare', 0],
  ['Map', 0],
  ['Set', 0],
  ['Error', 1],
  ['class', 1],
]);
const PAIRS: ReadonlySet<string> = new Set(['fields', 'bareFields']);

/** What a query finds an item by: all texts and numbers of its value, those of the fields that were named, or nothing. */
export function createDocument(value: JsonValue, index: false | readonly string[] | undefined): Document {
  const parts = index === undefined ? [value] : (index || []).flatMap((path) => selectAtPath(value, path));
  const content = parts.flatMap(textsIn).join('\n');
  return { fields: { ...NO_FIELDS, content }, terms: new Set(termsOf(content)) };
}

const NO_FIELDS: MemoryFields = {
  content: '',
  hash: '',
  kind: 'fact',
  subject: '',
  metadata: {},
  trust: 'agent',
  confidence: 1,
  isPinned: false,
  observedAtMs: 0,
};

/** The texts and numbers of an encoded value, but not the names of its fields and classes. */
function textsIn(json: JsonValue): string[] {
  if (typeof json === 'string') return [json];
  if (typeof json === 'number') return [String(json)];
  if (typeof json !== 'object' || json === null) return [];
  if (Array.isArray(json)) return json.flatMap(textsIn);
  const tagged = Object.keys(json)[0] === '$' ? (json as { $: JsonValue }).$ : undefined;
  return tagged === undefined ? Object.values(json).flatMap(textsIn) : textsInTagged(tagged as readonly JsonValue[]);
}

function textsInTagged([tag, ...args]: readonly JsonValue[]): string[] {
  const name = String(tag);
  if (PAIRS.has(name)) return (args[0] as [string, JsonValue][]).flatMap(([, value]) => textsIn(value));
  const at = CONTAINERS.get(name);
  return at === undefined ? [] : textsIn(args[at] as JsonValue);
}

/**
 * Ranks documents by the words they share with a query, as memories are ranked: answers places in the list, best first and of equal
 * ones the last first, with scores up to 1. What shares no word is not among them.
 */
export function rankByWords(
  documents: readonly Document[],
  query: string,
): { readonly at: number; readonly score: number }[] {
  const { terms } = parseQuery(query, { subjects: [], speaker: undefined, nowMs: 0 });
  const memories = new Map(documents.map(({ fields }, at) => [String(at), toMemory(fields, at)]));
  const bySeq = new Map(documents.map((_, at) => [at, String(at)]));
  const ranked = rank({
    query: { terms, subjects: new Set(), dates: [], firstPerson: query, asksFor: () => false, isAbout: () => false },
    visible: { memories, bySeq, followers: new Map(), subjects: new Set(), slots: new Map(), taken: new Map() },
    isWanted: () => true,
    postings: new Map(terms.map((term) => [term, placesOf(documents, term)])),
  });
  return ranked.map(({ memory, score }) => ({ at: memory.contentSeq, score }));
}

function placesOf(documents: readonly Document[], term: string): number[] {
  return documents.flatMap(({ terms }, at) => (terms.has(term) ? [at] : []));
}

function toMemory(fields: MemoryFields, at: number): FoldedMemory {
  return {
    id: String(at),
    scope: {},
    fields,
    contentSeq: at,
    version: at,
    createdAtMs: 0,
    updatedAtMs: 0,
    reinforcements: 0,
    isPromoted: false,
  };
}

/** The parts of a value that a path of LangGraph's leads to: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*`; `$` is the whole. */
function selectAtPath(value: JsonValue, path: string): JsonValue[] {
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
