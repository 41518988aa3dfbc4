import { ConflictError, ModelError, messageOf } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import { Serial } from '../../core/time/serial.ts';
import { redactText } from '../../manager/engine/save-options.ts';
import { parseQuery } from '../find/query.ts';
import { rank } from '../find/ranking.ts';
import { currentAt } from '../log/current.ts';
import { checkExtraction, type MemoryExtractor, type MemoryMessage } from '../log/extractor.ts';
import { foldMemory, toRecord } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { digest, type MemoryInput, parseMessages, parseScope, refuseSecrets } from '../log/memory-input.ts';
import { counterpartOf } from '../log/slots.ts';
import type { View } from '../log/views.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { MemoryKind, MemoryRecord } from '../storage/memory-record.ts';
import type { MemoryEvent, NewMemoryEvent, RelatedQuery } from '../storage/memory-storage.ts';
import { type Decision, Decisions } from './decisions.ts';
import {
  type AddOptions,
  extractionKey,
  type Proposal,
  type ProposalContext,
  parseAddOptions,
  proposeExtracted,
  proposeTurns,
} from './proposal.ts';

/** What an addition did: `ADD` a new memory, `REINFORCE` a known one, or `NONE` because the same source had added it already. */
type AddedMemory = {
  readonly id: string;
  readonly memory: string;
  readonly kind: MemoryKind;
  readonly event: 'ADD' | 'REINFORCE' | 'NONE';
};

/** The outcome of `add`. What an extractor could not do is said here and never thrown: the turns are safe. */
export type AddResult = {
  readonly results: readonly AddedMemory[];
  readonly superseded: readonly string[];
  readonly extraction: 'none' | 'done' | 'recorded' | { readonly problem: string };
};

type Stored = { readonly added: readonly Decision[]; readonly events: readonly MemoryEvent[] };

/** Each time another writer stored one of the same keys; there are only so many of them. */
const MAX_ATTEMPTS = 10;

/** How long an extractor may take that says nothing about it: a model's time. */
const EXTRACTION_MS = 60_000;

/** Memories that an extractor is shown, so that it does not say again what is known. */
const SHOWN_TO_EXTRACTOR = 10;

/** Runs and sessions whose last turn is kept at hand. */
const MAX_SERIES = 100;

type Asked = {
  readonly messages: readonly MemoryMessage[];
  readonly episodes: readonly Decision[];
  readonly context: ProposalContext;
};

type SeriesPlace = Pick<ProposalContext, 'scope' | 'place'>;

/** Turns what was said into events. */
export class Learning {
  readonly #context: MemoryContext;
  readonly #storing = new Serial();
  readonly #lastTurns = new Map<string, MemoryEvent>();

  constructor(context: MemoryContext) {
    this.#context = context;
  }

  async add(input: MemoryInput, options: AddOptions = {}): Promise<AddResult> {
    const { codec, views } = this.#context;
    const cleaned = parseAddOptions(options, codec);
    const scope = parseScope(options);
    options.signal?.throwIfAborted();
    const messages = parseMessages(input, codec);
    const place = await views.place(options);
    const context: ProposalContext = { scope, place, nowMs: this.#context.now(), options: cleaned };
    const turns = await this.#store(proposeTurns(messages, context), context);
    const found = await this.#extract(messages, turns, context);
    const events = [...turns.events, ...found.events];
    this.#context.vectors.add(events);
    return {
      results: [...turns.added, ...found.added].map(({ id, fields, event }) => {
        return { id, memory: fields.content, kind: fields.kind, event };
      }),
      superseded: events.filter(({ operation }) => operation === 'SUPERSEDE').map(({ memoryId }) => memoryId),
      extraction: found.extraction,
    };
  }

  /** One after the other, so that what one call adds is known to the next. */
  #store(
    proposals: readonly Proposal[],
    context: ProposalContext,
    more: readonly NewMemoryEvent[] = [],
  ): Promise<Stored> {
    return this.#storing.run(() => this.#decideAndAppend(proposals, context, more));
  }

  /** Decides and appends; again if another process was faster with the same source. */
  async #decideAndAppend(
    proposals: readonly Proposal[],
    context: ProposalContext,
    more: readonly NewMemoryEvent[],
  ): Promise<Stored> {
    if (proposals.length === 0 && more.length === 0) return { added: [], events: [] };
    for (let attempt = 1; ; attempt++) {
      // Nearly every turn says what was never said so: whether that is true the storage sees while it appends.
      const isNew = attempt === 1 && more.length === 0 && proposals.every(({ fields }) => fields.kind === 'episode');
      const { decisions, keyed } = await this.#open(proposals, context, isNew);
      const added = keyed.map((proposal) => decisions.decide(proposal));
      const events = [...decisions.events, ...more];
      if (events.length === 0) return { added, events: [] };
      const result = await this.#context.storage.append(events, { isNew });
      if (result.status === 'stored') {
        const last = result.events.findLast(({ fields }) => fields?.kind === 'episode');
        if (last !== undefined) keepRecent(this.#lastTurns, [seriesKey(context), last], MAX_SERIES);
        return { added, events: result.events };
      }
      if (attempt === MAX_ATTEMPTS)
        throw new ConflictError(
          'Others keep adding the same memories at this moment, so these were not added. Try again.',
        );
    }
  }

  /** Reads what the proposals may have to do with, as it is seen from where they are learned; returns them with keys that count there. */
  async #open(
    proposals: readonly Proposal[],
    context: ProposalContext,
    isNew = false,
  ): Promise<{ readonly decisions: Decisions; readonly keyed: readonly Proposal[] }> {
    const { scope, place, nowMs, options } = context;
    const { storage, views, newId } = this.#context;
    const related =
      isNew || proposals.length === 0 ? [] : await storage.readRelated({ ...relatedTo(proposals), scope });
    const ids = [...new Set(related.map(({ memoryId }) => memoryId))];
    const histories = ids.length === 0 ? [] : await storage.readEvents({ memoryIds: ids });
    const view = await views.ofPlace(place, await views.sessionsOf(histories));
    const hidden = new Map(related.filter((event) => !isTaken(event, view)).map((event) => [event.key, event]));
    const keyed = proposals.map((proposal) => ({
      ...proposal,
      key: keyAfter(hidden.get(proposal.key)) ?? proposal.key,
    }));
    if (proposals.some(({ key }) => hidden.has(key))) return this.#open(keyed, context);
    const seen = groupBy(histories.filter(view.sees), ({ memoryId }) => memoryId);
    const visible = [...seen.values()].flatMap((events) => foldMemory(events) ?? []);
    const previousId = await this.#previousId({ scope, place }, view);
    const { actor, reason } = options;
    const learner = { scope, place, nowMs, actor, reason, newId, previousId };
    return { decisions: new Decisions(learner, { visible, related }), keyed };
  }

  /** The turn before, as far as it is seen: nearly always the last one that was added here. */
  async #previousId({ scope, place }: SeriesPlace, { sees }: View): Promise<string | undefined> {
    if (place === undefined && scope.runId === undefined) return undefined;
    const sessionId = place?.sessionId;
    const last = this.#lastTurns.get(seriesKey({ scope, place }));
    if (last !== undefined && sees(last)) return last.memoryId;
    const series = await this.#context.storage.readSeries({ scope, sessionId });
    return series.find(sees)?.memoryId;
  }

  /** Asks the extractor once about new turns. What it answered before is not asked again; if it fails, the turns are safe. */
  async #extract(
    messages: readonly MemoryMessage[],
    turns: Stored,
    context: ProposalContext,
  ): Promise<Stored & Pick<AddResult, 'extraction'>> {
    const { extractor } = this.#context;
    const { infer = true, kind = 'episode', signal } = context.options;
    const episodes = turns.added.filter(({ fields }) => fields.kind === 'episode');
    const isWanted = infer && kind === 'episode' && episodes.length > 0;
    if (extractor === undefined || !isWanted) return { added: [], events: [], extraction: 'none' };
    try {
      return await this.#ask(extractor, { messages, episodes, context });
    } catch (error) {
      signal?.throwIfAborted();
      return { added: [], events: [], extraction: { problem: messageOf(error) } };
    }
  }

  async #ask(
    extractor: MemoryExtractor,
    { messages, episodes, context }: Asked,
  ): Promise<Stored & Pick<AddResult, 'extraction'>> {
    const hashes = episodes.map(({ fields }) => fields.hash);
    const { key, isSeen, recorded } = await this.#findExtraction(extractionKey(context, extractor.id, hashes), context);
    if (isSeen) return { added: [], events: [], extraction: 'recorded' };
    const { scope, nowMs, place } = context;
    const answer = recorded ?? (await this.#askNow(extractor, { messages, episodes, context }));
    const { codec } = this.#context;
    const extracted = checkExtraction(answer, extractor.id).map((found) => {
      refuseSecrets({ subject: found.subject, slot: found.slot }, codec);
      return { ...found, content: redactText(found.content, codec) };
    });
    const proposals = proposeExtracted(extracted, episodes, { context, extractorId: extractor.id });
    const memoryId = episodes[0]?.id ?? '';
    const event = { memoryId, operation: 'EXTRACT' as const, scope, place, atMs: nowMs, key, extracted };
    const extraction = recorded === undefined ? 'done' : 'recorded';
    return { ...(await this.#store(proposals, context, [event])), extraction };
  }

  /** Ends in time, also if the extractor never answers. */
  async #askNow(extractor: MemoryExtractor, { messages, episodes, context }: Asked): Promise<unknown> {
    const { id, timeoutMs = EXTRACTION_MS } = extractor;
    const { scope, nowMs, options } = context;
    const observedAt = new Date(episodes.at(-1)?.fields.observedAtMs ?? nowMs);
    const request = { messages, scope, observedAt, known: await this.#similar(messages, context) };
    const onTimeout = () => new ModelError(`The extractor "${id}" did not answer within ${timeoutMs} ms.`);
    const deadline = { signal: options.signal, timeoutMs, onTimeout };
    return withDeadline(deadline, (signal) => extractor.extract({ ...request, signal }));
  }

  /** Whether an answer is seen from here under this key; if not, the key for one, and what was answered on a line that is not seen. */
  async #findExtraction(key: string | undefined, context: ProposalContext): Promise<FoundExtraction> {
    const { scope, place } = context;
    const { storage, views } = this.#context;
    const related = { scope, hashes: [], slots: [], kinds: [] };
    const [found] = key === undefined ? [] : await storage.readRelated({ ...related, keys: [key] });
    if (found === undefined) return { key, isSeen: false };
    const view = await views.ofPlace(place, await views.sessionsOf([found]));
    if (isTaken(found, view)) return { key, isSeen: true };
    return { recorded: found.extracted, ...(await this.#findExtraction(keyAfter(found), context)) };
  }

  async #similar(
    messages: readonly MemoryMessage[],
    { scope, place, nowMs }: ProposalContext,
  ): Promise<MemoryRecord[]> {
    const log = await this.#context.logs.open(scope);
    const visible = currentAt(log.see(await this.#context.views.ofPlace(place, log.sessions)), nowMs);
    const text = messages.map(({ content }) => content).join(' ');
    const query = parseQuery(text, { subjects: [], speaker: undefined, nowMs });
    const postings = log.postings;
    const topK = SHOWN_TO_EXTRACTOR;
    const ranked = rank({ query, visible, postings, topK, isWanted: ({ fields }) => fields.kind !== 'episode' });
    return ranked.slice(0, topK).map(({ memory }) => toRecord(memory));
  }
}

type FoundExtraction = { readonly key: string | undefined; readonly isSeen: boolean; readonly recorded?: unknown };

/** Whether nothing may be added under an event's key: a source counts once on a line, and what was purged of it never again. */
function isTaken(event: MemoryEvent, { sees }: View): boolean {
  return event.key === undefined || event.operation === 'PURGE' || sees(event);
}

/** The key under which the same source adds where this event is not seen; the same for everybody who adds there. */
function keyAfter(hidden: MemoryEvent | undefined): string | undefined {
  return hidden && digest([hidden.key, hidden.seq]);
}

function seriesKey({ scope, place }: SeriesPlace): string {
  return `${scopeKey(scope)} ${place?.sessionId ?? ''}`;
}

function relatedTo(proposals: readonly Proposal[]): Omit<RelatedQuery, 'scope' | 'series'> {
  const facts = proposals.map(({ fields }) => fields).filter(({ kind }) => kind !== 'episode');
  const unique = <Value>(values: readonly Value[]): Value[] => [
    ...new Map(values.map((value) => [digest([value]), value])).values(),
  ];
  return {
    keys: proposals.flatMap(({ key }) => key ?? []),
    hashes: [...new Set(proposals.map(({ fields }) => fields.hash))],
    slots: unique(
      facts.flatMap(({ subject, slot }) =>
        slot === undefined ? [] : [slot, counterpartOf(slot)].map((one) => ({ subject, slot: one })),
      ),
    ),
    kinds: unique(facts.map(({ subject, kind }) => ({ subject, kind }))),
  };
}
