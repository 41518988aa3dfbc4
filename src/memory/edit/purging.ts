import { NotFoundError } from '../../core/errors.ts';
import { checkOptions, string } from '../../core/options.ts';
import { cutWords, joinSpans, placesOf, type Span } from '../log/current.ts';
import { sinceMs } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { checkId, hashContent, parseScope, redactWhy, SCOPE_CHECKS } from '../log/memory-input.ts';
import type { Taken } from '../log/scope-log.ts';
import type { MemoryFields, MemoryScope } from '../storage/memory-record.ts';
import type { MemoryEvent, MemoryOperation, NewMemoryEvent } from '../storage/memory-storage.ts';

/** What was removed, and the checkpoints whose states may hold the same words: memory cannot remove those. */
export type PurgeResult = {
  readonly purged: readonly string[];
  /** The turns that said so among other things: they lost these words and keep the rest. */
  readonly turns: readonly string[];
  readonly checkpoints: readonly string[];
  readonly sessions: readonly string[];
};

export async function purge(
  context: MemoryContext,
  what: string | MemoryScope,
  options: { readonly reason?: string },
): Promise<PurgeResult> {
  checkOptions(options, { reason: string }, 'purge()');
  const { reason } = redactWhy(options, context.codec);
  const isOne = typeof what === 'string';
  if (isOne) checkId(what, 'purge');
  else if (what !== undefined) checkOptions(what, SCOPE_CHECKS, 'the scope of purge()');
  const all = isOne ? await eventsAround(context, what) : await eventsOfScope(context, what);
  const doomed = isOne ? derivedFrom(all, what) : new Set(all.map(({ memoryId }) => memoryId));
  const { rewritten, turns, emptied } = removeWords(all, doomed);
  const memoryIds = [...doomed, ...emptied];
  const events = all.filter(({ memoryId }) => memoryIds.includes(memoryId));
  const tombstones = memoryIds.flatMap((id) =>
    tombstonesOf(
      events.filter(({ memoryId }) => memoryId === id),
      { atMs: context.now(), reason },
    ),
  );
  if (memoryIds.length > 0) await context.storage.purge({ memoryIds, tombstones, rewritten });
  return {
    purged: memoryIds,
    turns,
    checkpoints: [...new Set(events.flatMap(({ place }) => place?.checkpointId || []))],
    sessions: [...new Set(events.flatMap(({ place }) => place?.sessionId ?? []))],
  };
}

/** What tells of no memory, or of one that is gone. */
const NO_WORDS = new Set<MemoryOperation>(['PURGE', 'STAND', 'END']);

async function eventsOfScope(context: MemoryContext, scope: MemoryScope): Promise<MemoryEvent[]> {
  const events = await context.storage.readEvents({ scope: parseScope(scope) });
  return events.filter(({ operation }) => !NO_WORDS.has(operation));
}

/** How many memories a purge of a scope would remove. */
export async function countOf(context: MemoryContext, scope: MemoryScope): Promise<number> {
  return new Set((await eventsOfScope(context, scope)).map(({ memoryId }) => memoryId)).size;
}

/** Everything that may hold the words of a memory or point at it. */
async function eventsAround(context: MemoryContext, id: string): Promise<MemoryEvent[]> {
  const own = await context.storage.readEvents({ memoryIds: [id] });
  const [first] = own;
  if (first === undefined || own.some(({ operation }) => NO_WORDS.has(operation)))
    throw new NotFoundError(`There is no memory ${id} to purge.`, { details: { id } });
  return eventsOfScope(context, first.scope);
}

function derivedFrom(all: readonly MemoryEvent[], id: string): Set<string> {
  const derived = new Set([id]);
  for (const { memoryId, fields } of all)
    if (fields?.derivedFrom?.some((source) => derived.has(source))) derived.add(memoryId);
  return derived;
}

/**
 * What is left of a memory, without a word of it: the keys of its sources, so that they are not learned from again, and the slot it was
 * in, so that what it had replaced there stays over.
 */
function tombstonesOf(
  events: readonly MemoryEvent[],
  why: Pick<NewMemoryEvent, 'atMs' | 'reason'>,
): readonly NewMemoryEvent[] {
  const telling = events.filter(({ key, fields }) => key !== undefined || fields?.slot !== undefined);
  return (telling.length > 0 ? telling : events.slice(0, 1)).map(({ memoryId, scope, place, key, fields }) => {
    const slot = slotOf(fields);
    return { memoryId, operation: 'PURGE' as const, scope, place, key, ...(slot && { fields: slot }), ...why };
  });
}

function slotOf({ slot, subject, observedAtMs, ...fields }: Partial<MemoryFields> = {}) {
  if (slot === undefined || subject === undefined || observedAtMs === undefined) return undefined;
  return { slot, subject, validFromMs: sinceMs({ ...fields, observedAtMs }) };
}

/** Takes the words of memories that go out of the events that stay; turns that said nothing else are emptied. */
function removeWords(all: readonly MemoryEvent[], doomed: ReadonlySet<string>) {
  const going = all.filter(({ memoryId }) => doomed.has(memoryId));
  const staying = all.filter(({ memoryId }) => !doomed.has(memoryId));
  const taken = takenFrom(going, doomed);
  const said = staying.filter(({ memoryId, fields }) => taken.has(memoryId) && fields?.content !== undefined);
  const cuts = said.map(({ memoryId: turnId, fields }): Cut => {
    const text = fields?.content ?? '';
    const spans = spansIn(text, taken.get(turnId) ?? []);
    return { turnId, text, spans, left: cutWords(text, spans) };
  });
  const turns = new Set(cuts.flatMap(({ turnId, left }) => (left === undefined ? [] : [turnId])));
  const words = new Set(going.flatMap(({ fields }) => fields?.content ?? []));
  const rewritten = staying.flatMap((event) => {
    const rest = shiftSpan(cutExtracted(cutOwn(event, taken.get(event.memoryId) ?? []), words), cuts);
    return rest === event ? [] : [rest];
  });
  const emptied = [...new Set(cuts.map(({ turnId }) => turnId))].filter((id) => !turns.has(id));
  const kept = rewritten.filter(({ memoryId }) => !emptied.includes(memoryId));
  const isCut = (id: string) => cuts.some(({ turnId, spans }) => turnId === id && spans.length > 0);
  return { rewritten: kept, turns: [...turns].filter(isCut), emptied };
}

function takenFrom(going: readonly MemoryEvent[], doomed: ReadonlySet<string>): Map<string, Taken[]> {
  const taken = new Map<string, Taken[]>();
  for (const { memoryId: id, fields } of going)
    for (const turnId of fields?.derivedFrom ?? []) {
      const one = { id, words: fields?.content ?? '', span: fields?.span };
      if (!doomed.has(turnId)) taken.set(turnId, [...(taken.get(turnId) ?? []), one]);
    }
  return taken;
}

type Cut = {
  readonly turnId: string;
  readonly text: string;
  readonly spans: readonly Span[];
  readonly left: string | undefined;
};

function spansIn(text: string, taken: readonly Taken[]): Span[] {
  return joinSpans(taken.flatMap((one) => placesOf(text, one)));
}

function cutOwn(event: MemoryEvent, taken: readonly Taken[]): MemoryEvent {
  const { fields, previous } = event;
  const content = textWithout(fields?.content, taken);
  const isSame = content === fields?.content;
  const earlier = textWithout(previous, taken);
  if (isSame && earlier === previous) return event;
  const hash = hashContent(content ?? '', { subject: fields?.subject ?? '', isEpisode: true });
  return { ...event, ...(!isSame && { fields: { ...fields, content: content ?? '', hash } }), previous: earlier };
}

function textWithout(text: string | undefined, taken: readonly Taken[]): string | undefined {
  const spans = spansIn(text ?? '', taken);
  return spans.length === 0 ? text : (cutWords(text ?? '', spans) ?? '');
}

/** What an extractor answered is kept so that it is not asked again; the answer itself is not needed for that. */
function cutExtracted(event: MemoryEvent, words: ReadonlySet<string>): MemoryEvent {
  if (!Array.isArray(event.extracted)) return event;
  const extracted = event.extracted.filter(({ content }) => !words.has(content));
  return extracted.length === event.extracted.length ? event : { ...event, extracted };
}

/** What else was taken from the turn stands at another place now. */
function shiftSpan(event: MemoryEvent, cuts: readonly Cut[]): MemoryEvent {
  const { derivedFrom: [turnId] = [], span, content } = event.fields ?? {};
  if (span === undefined) return event;
  const cut = cuts.find((one) => one.turnId === turnId && one.text.slice(...span) === content);
  const before = cut?.spans.filter(([, end]) => end <= span[0]) ?? [];
  const by = before.reduce((sum, [start, end]) => sum + (end - start) - 1, 0);
  return by === 0 ? event : { ...event, fields: { ...event.fields, span: [span[0] - by, span[1] - by] } };
}
