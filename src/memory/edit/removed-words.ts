import { cutWords, joinSpans, placesOf, type Span } from '../log/current.ts';
import { hashContent } from '../log/memory-input.ts';
import type { Taken } from '../log/scope-log.ts';
import type { MemoryEvent } from '../storage/memory-storage.ts';

/** What is left of the turns that said what is purged: they lose these words, and go whole if they said nothing else. */
export type Remains = {
  readonly rewritten: readonly MemoryEvent[];
  /** The turns that keep other words. */
  readonly turns: readonly string[];
  /** The turns of which nothing is left. */
  readonly emptied: readonly string[];
};

/** Takes the words of memories that go out of the events that stay. */
export function removeWords(all: readonly MemoryEvent[], doomed: ReadonlySet<string>): Remains {
  const going = all.filter(({ memoryId }) => doomed.has(memoryId));
  const staying = all.filter(({ memoryId }) => !doomed.has(memoryId));
  const taken = takenFrom(going, doomed);
  const said = staying.filter(({ memoryId, fields }) => taken.has(memoryId) && fields?.content !== undefined);
  const cuts = said.map((event) => cutTurn(event, taken.get(event.memoryId) ?? []));
  const turns = new Set(cuts.filter(({ left }) => left !== undefined).map(({ turnId }) => turnId));
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

/** One wording of a turn, where words were taken out of it, and what is left. */
type Cut = {
  readonly turnId: string;
  readonly text: string;
  readonly spans: readonly Span[];
  readonly left: string | undefined;
};

function cutTurn({ memoryId: turnId, fields }: MemoryEvent, taken: readonly Taken[]): Cut {
  const text = fields?.content ?? '';
  const spans = spansIn(text, taken);
  return { turnId, text, spans, left: cutWords(text, spans) };
}

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
