import * as is from '../../core/options.ts';
import { checkOptions, checkValue, type OptionChecks } from '../../core/options.ts';
import { redactText } from '../../manager/engine/save-options.ts';
import { currentAt } from '../log/current.ts';
import { type FoldedMemory, toRecord } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { parseScope, SCOPE_CHECKS } from '../log/memory-input.ts';
import type { Visible } from '../log/scope-log.ts';
import { endedBy } from '../log/slots.ts';
import type { VectorStatus } from '../log/vector-index.ts';
import { VIEW_CHECKS, type ViewOptions } from '../log/views.ts';
import { MEMORY_KINDS, type MemoryKind, type MemoryRecord, type MemoryScope } from '../storage/memory-record.ts';
import { compileFilters, type MemoryFilters } from './filters.ts';
import { parseQuery } from './query.ts';
import { type Ranked, rank, type ScoreParts } from './ranking.ts';

/** Which memories are looked through, and from where. */
export type SelectOptions = MemoryScope &
  ViewOptions & {
    readonly filters?: MemoryFilters;
    readonly kinds?: readonly MemoryKind[];
    /** Also what expired or was superseded, and turns with all their words. */
    readonly showExpired?: boolean;
  };

const SELECT_CHECKS: OptionChecks<SelectOptions> = {
  ...SCOPE_CHECKS,
  ...VIEW_CHECKS,
  filters: is.record,
  kinds: is.listOf(is.oneOf(...MEMORY_KINDS)),
  showExpired: is.flag,
};

/** How a question is asked. */
export type SearchOptions = SelectOptions & {
  /** At most this many; default 20. */
  readonly topK?: number;
  /** Only scores from here on; default 0. */
  readonly threshold?: number;
  /** Says what each score is made of. */
  readonly explain?: boolean;
  readonly signal?: AbortSignal;
};

const SEARCH_CHECKS: OptionChecks<SearchOptions> = {
  ...SELECT_CHECKS,
  topK: is.wholeFrom(1, 1000),
  threshold: is.accepts('a number', (value) => typeof value === 'number' && !Number.isNaN(value)),
  explain: is.flag,
  signal: is.signal,
};

/** A memory that answers a question, and how well; a score compares only with others of the same search. */
export type MemoryHit = MemoryRecord & {
  readonly score: number;
  /** With `showExpired`: it no longer holds, or its words say what no longer does. */
  readonly isOutdated?: true;
  readonly parts?: ScoreParts;
};

/** What was found, best first. `vectors` says whether an embedder took part; without one, or while it is down, words decide alone. */
export type SearchResult = VectorStatus & { readonly results: readonly MemoryHit[] };

const DEFAULT_TOP_K = 20;

/** Looks memories up by a question. */
export async function search(context: MemoryContext, text: string, options: SearchOptions = {}): Promise<SearchResult> {
  checkValue(text, is.string, 'The question of search()');
  checkOptions(options, SEARCH_CHECKS, 'search()');
  options.signal?.throwIfAborted();
  const { scope, log, visible, current, isWanted, nowMs } = await open(context, options);
  // Memories hold no secrets, so a question needs none, least of all one that is sent to an embedder.
  const question = redactText(text, context.codec);
  const query = parseQuery(question, { subjects: visible.subjects, speaker: scope.userId ?? 'user', nowMs });
  const { cosines, ...status } = await context.vectors.nearness(() => query.firstPerson, {
    scope,
    visible,
    signal: options.signal,
  });
  const { topK = DEFAULT_TOP_K, threshold = 0, explain = false } = options;
  const ranked = rank({ query, visible, isWanted, postings: log.postings, cosines, topK });
  const results = collapse(visible === current ? ranked : demote(ranked, { visible, current }))
    .filter(({ score }) => score > 0 && score >= threshold)
    .slice(0, topK)
    .map(({ memory, parts, ...hit }) => ({ ...toRecord(memory), ...hit, ...(explain && { parts }) }));
  return { ...status, results };
}

/** All that is visible, oldest first. */
export async function getAll(context: MemoryContext, options: SelectOptions = {}): Promise<MemoryRecord[]> {
  checkOptions(options, SELECT_CHECKS, 'getAll()');
  const { visible, isWanted } = await open(context, options);
  const wanted = [...visible.memories.values()].filter((memory) => isWanted?.(memory) !== false);
  return wanted.sort(byAge).map(toRecord);
}

/** One memory as it is seen from there; undefined if it is not. */
export async function get(
  { views }: MemoryContext,
  id: string,
  options: ViewOptions,
): Promise<MemoryRecord | undefined> {
  checkOptions(options, VIEW_CHECKS, 'get()');
  const { memory } = await views.history(id, (sessions) => views.open(options, sessions));
  return memory && toRecord(memory);
}

async function open({ logs, views, now }: MemoryContext, options: SelectOptions) {
  const scope = parseScope(options);
  const log = await logs.open(scope);
  const seen = log.see(await views.open(options, log.sessions));
  const nowMs = options.asOf instanceof Date ? options.asOf.getTime() : now();
  const current = currentAt(seen, nowMs);
  const visible = options.showExpired === true ? seen : current;
  return { scope, log, visible, current, nowMs, isWanted: compileWanted(options) };
}

function compileWanted({ filters, kinds }: SelectOptions): ((memory: FoldedMemory) => boolean) | undefined {
  if (filters === undefined && kinds === undefined) return undefined;
  const fits = filters === undefined ? undefined : compileFilters(filters);
  return (memory) =>
    (kinds === undefined || kinds.includes(memory.fields.kind)) && (fits === undefined || fits(toRecord(memory)));
}

/** By when it was observed; of two observed at once, by which was stored first. */
function byAge(a: FoldedMemory, b: FoldedMemory): number {
  return a.fields.observedAtMs - b.fields.observedAtMs || a.createdAtMs - b.createdAtMs || a.contentSeq - b.contentSeq;
}

type Shown = Ranked & Pick<MemoryHit, 'isOutdated'>;

/** What no longer holds is marked and comes after what took its place. */
function demote(ranked: readonly Ranked[], { visible, current }: { visible: Visible; current: Visible }): Shown[] {
  const scores = new Map(ranked.map(({ memory, score }) => [memory.id, score]));
  const capOf = ({ id, fields }: FoldedMemory): number => {
    const sources = fields.kind === 'episode' ? (visible.taken.get(id) ?? []) : [{ id }];
    const rivals = sources.flatMap((source) => rivalsOf(visible, source.id));
    return Math.min(...rivals.flatMap((rival) => (current.memories.get(rival) ? (scores.get(rival) ?? []) : [])));
  };
  return ranked
    .map((one): Shown => {
      if (current.memories.get(one.memory.id) === one.memory) return one;
      return { ...one, score: Math.min(one.score, BELOW * capOf(one.memory)), isOutdated: true };
    })
    .sort((a, b) => b.score - a.score);
}

/** A little less than what took its place. */
const BELOW = 0.99;

function rivalsOf({ memories, slots }: Visible, id: string): string[] {
  const { slot, subject = '', supersededBy } = memories.get(id)?.fields ?? {};
  const inSlot = slot === undefined ? [] : [...(slots.get(endedBy(slot) ?? slot)?.get(subject) ?? [])];
  return supersededBy === undefined ? inSlot : [supersededBy, ...inSlot];
}

/** What was taken from a turn and the turn itself say the same: the better one stands for both. */
function collapse(ranked: readonly Shown[]): Shown[] {
  const shown = new Set<string>();
  return ranked.filter(({ memory: { id, fields } }) => {
    const sources = fields.derivedFrom ?? [];
    const isShown = shown.has(id) || sources.some((source) => shown.has(source));
    if (!isShown) for (const shownId of [id, ...sources]) shown.add(shownId);
    return !isShown;
  });
}
