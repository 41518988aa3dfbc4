import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, checkValue, type OptionChecks } from '../../core/options.ts';
import { ELLIPSIS } from '../log/current.ts';
import { EMPTY_BLOCK, formatBlock, formatEntry } from '../log/memory-block.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import type { VectorStatus } from '../log/vector-index.ts';
import { VIEW_CHECKS, type ViewOptions } from '../log/views.ts';
import {
  MEMORY_KINDS,
  type MemoryKind,
  type MemoryRecord,
  type MemoryScope,
  PLACEHOLDER,
  renderNothing,
} from '../storage/memory-record.ts';
import { wordsOf } from '../text/terms.ts';
import { getAll, search } from './finding.ts';

/** How memory is filled into a prompt. */
export type RenderOptions = ViewOptions & {
  readonly scope: MemoryScope;
  /** What the agent is about to do, usually the user's last words; without it the newest memories are taken. */
  readonly query?: string | undefined;
  /** What the prompt says already: memories that only repeat it are left out. */
  readonly said?: readonly string[] | undefined;
  /** What all memory in the prompt may take together; default 600. */
  readonly budgetTokens?: number;
  /** Default: a quarter of the characters. */
  readonly countTokens?: (text: string) => number;
  readonly signal?: AbortSignal;
};

const RENDER_CHECKS: OptionChecks<RenderOptions> = {
  ...VIEW_CHECKS,
  scope: is.record,
  query: is.string,
  said: is.listOf(is.string),
  budgetTokens: is.positive,
  countTokens: is.callback,
  signal: is.signal,
};

/** The filled template, and which memories are in it: write their ids into the checkpoint, and it says what steered the step. */
export type RenderResult = VectorStatus & {
  readonly text: string;
  readonly ids: readonly string[];
  readonly usedTokens: number;
};

const DEFAULT_BUDGET_TOKENS = 600;
/** Pinned memories must not push everything else out. */
const PINNED_SHARE = 0.4;
/** More than fit into any sensible budget. */
const MAX_RECALLED = 200;

/** What applies whatever is asked, the most wanted first. */
const ALWAYS_WANTED: readonly MemoryKind[] = ['instruction', 'preference', 'fact'];

/** `preferences` and the like: the kinds, in the plural. */
const SECTIONS = new Map<string, MemoryKind>(MEMORY_KINDS.map((kind) => [`${kind}s`, kind]));

export async function render(context: MemoryContext, template: string, options: RenderOptions): Promise<RenderResult> {
  checkValue(template, is.string, 'The template of render()');
  checkOptions(options ?? {}, RENDER_CHECKS, 'render()');
  if (options?.scope === undefined)
    throw new InvalidInputError('Whose memory is it? Give render() the option scope: { userId }.');
  const { budgetTokens = DEFAULT_BUDGET_TOKENS } = options;
  const status: { now: VectorStatus } = { now: { vectors: 'none' } };
  const used = { tokens: 0, ids: new Set<string>(), shown: [] as MemoryRecord[] };
  const said = (options.said ?? []).map(joinWords);
  const parts: string[] = [];
  let position = 0;
  for (const match of template.matchAll(PLACEHOLDER)) {
    parts.push(template.slice(position, match.index));
    position = match.index + match[0].length;
    if (match[0].startsWith('{{')) {
      parts.push(renderNothing(match[0]));
      continue;
    }
    const kinds = kindsOf(match[1]);
    const { records, vectors } = await recall(context, kinds, options);
    if (vectors !== undefined) status.now = vectors;
    const unused = records.filter(
      ({ id, memory }) => !used.ids.has(id) && !said.some((text) => text.includes(joinWords(memory))),
    );
    const filled = fill(unused, { ...options, budgetTokens: budgetTokens - used.tokens, before: used.shown });
    used.tokens += filled.usedTokens;
    used.shown.push(...filled.shown);
    for (const id of filled.ids) used.ids.add(id);
    parts.push(filled.text);
  }
  parts.push(template.slice(position));
  return { ...status.now, text: parts.join(''), ids: [...used.ids], usedTokens: used.tokens };
}

/** What may be shown, the most wanted first: pinned ones, then the best answers, or without a question the newest. */
async function recall(
  context: MemoryContext,
  kinds: readonly MemoryKind[] | undefined,
  { scope, query, session, asOf, signal }: RenderOptions,
): Promise<{ records: MemoryRecord[]; vectors?: VectorStatus }> {
  const select = { ...scope, session, asOf, ...(kinds !== undefined && { kinds }) };
  const all = await getAll(context, select);
  const pinned = all.filter(({ isPinned }) => isPinned);
  if (query === undefined || query.trim() === '') return { records: [...pinned, ...newestFirst(all)] };
  const { results, ...vectors } = await search(context, query, {
    ...select,
    topK: MAX_RECALLED,
    ...(signal !== undefined && { signal }),
  });
  // What is known also applies where it shares no word with the question: it follows what does, while there is room.
  const rest = newestFirst(all);
  const known = ALWAYS_WANTED.flatMap((wanted) => rest.filter(({ kind }) => kind === wanted));
  return { records: [...pinned, ...results, ...(kinds === undefined ? known : rest)], vectors };
}

/** Words alone are compared: no memory of "tea" is found in "team", and an exclamation mark changes nothing. */
function joinWords(text: string): string {
  return ` ${wordsOf(text).join(' ')} `;
}

function newestFirst(records: readonly MemoryRecord[]): MemoryRecord[] {
  return records.filter(({ isPinned }) => !isPinned).toReversed();
}

function kindsOf(section: string | undefined): readonly MemoryKind[] | undefined {
  if (section === undefined) return undefined;
  const kind = SECTIONS.get(section);
  if (kind !== undefined) return [kind];
  throw new InvalidInputError(
    `The template asks for {memory:${section}}; known are ${[...SECTIONS.keys()].join(', ')}, and {memory} for all.`,
  );
}

/** Takes whole entries, the most wanted first, as far as the budget goes, and shows them oldest first. */
function fill(
  records: readonly MemoryRecord[],
  {
    budgetTokens,
    countTokens = estimateTokens,
    before,
  }: Pick<RenderOptions, 'countTokens'> & {
    readonly budgetTokens: number;
    /** What the prompt shows before them. */
    readonly before: readonly MemoryRecord[];
  },
) {
  const chosen = new Map<string, { record: MemoryRecord; line: string }>();
  const room = budgetTokens - countTokens(`${EMPTY_BLOCK}\n`);
  let taken = 0;
  for (const record of records) {
    const words = chosen.has(record.id)
      ? undefined
      : unshown(record, [...before, ...[...chosen.values()].map((one) => one.record)]);
    if (words === undefined) continue;
    const line = formatEntry({ ...record, memory: words });
    const tokens = countTokens(`${line}\n`);
    const limit = record.isPinned ? room * PINNED_SHARE : room;
    if (taken + tokens > limit) continue;
    taken += tokens;
    chosen.set(record.id, { record, line });
  }
  if (chosen.size === 0) return { text: '', ids: [], usedTokens: 0, shown: [] };
  const shown = [...chosen.values()].sort((a, b) => compareRecords(a.record, b.record));
  const text = formatBlock(shown.map(({ line }) => line));
  const entries = shown.map(({ record }) => record);
  return { text, ids: entries.map(({ id }) => id), usedTokens: countTokens(text), shown: entries };
}

/** The words of an entry that no other shows: what was taken from a turn is not said again beside it. */
function unshown({ id, memory, derivedFrom }: MemoryRecord, shown: readonly MemoryRecord[]): string | undefined {
  let words = memory;
  for (const other of shown) {
    if (derivedFrom.includes(other.id) && joinWords(other.memory).includes(joinWords(memory))) return undefined;
    if (other.derivedFrom.includes(id)) words = words.replace(other.memory, ELLIPSIS);
  }
  return words === memory || wordsOf(words).length > 0 ? words : undefined;
}

function compareRecords(a: MemoryRecord, b: MemoryRecord): number {
  return (
    Number(b.isPinned) - Number(a.isPinned) ||
    a.observedAt.getTime() - b.observedAt.getTime() ||
    a.createdAt.getTime() - b.createdAt.getTime() ||
    (a.id < b.id ? -1 : 1)
  );
}

function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4);
}
