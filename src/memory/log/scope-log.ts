import { keepRecent } from '../../core/keep-recent.ts';
import { Serial } from '../../core/time/serial.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { MemoryFields, MemoryScope } from '../storage/memory-record.ts';
import type { MemoryEvent, MemoryStorage } from '../storage/memory-storage.ts';
import { termsOfWord, wordsOf } from '../text/terms.ts';
import { applyEvent, type FoldedMemory } from './fold.ts';
import { TaughtSessions, type View } from './views.ts';

/** Memories by their ids. */
export interface Memories {
  readonly size: number;
  get(id: string): FoldedMemory | undefined;
  keys(): Iterable<string>;
  values(): Iterable<FoldedMemory>;
}

/** What a view sees of a scope: each memory, and how to find it. */
export type Visible = {
  readonly memories: Memories;
  /** The memory whose words an event holds, as long as they count. */
  readonly bySeq: ReadonlyMap<number, string>;
  /** The turns that followed a turn. */
  readonly followers: ReadonlyMap<string, readonly string[]>;
  /** Whom memories are about; some of them may be forgotten by now. */
  readonly subjects: ReadonlySet<string>;
  /** What is or was in each slot of each subject. */
  readonly slots: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;
  /** What was deleted or purged from a slot: what it had replaced stays over. */
  readonly over: ReadonlyMap<string, Since>;
  /** What was taken from each turn. */
  readonly taken: ReadonlyMap<string, readonly Taken[]>;
};

/** Since when something holds, and which event says so: of two with one time the later event counts. */
export type Since = Pick<FoldedMemory, 'saidSinceMs' | 'contentSeq'>;

/** A memory that was taken from a turn, and the place in the turn where its words stand, if that is known. */
export type Taken = {
  readonly id: string;
  readonly words: string;
  readonly span: readonly [start: number, end: number] | undefined;
};

const MAX_VIEWS = 8;

/** The events of one scope, kept in memory and caught up before each use, with what views make of them. */
export class ScopeLog {
  readonly #storage: MemoryStorage;
  readonly #scope: MemoryScope;
  readonly #views = new Map<string, FoldedView>();
  #sessions = new TaughtSessions();
  #postings = new Postings();
  #events: MemoryEvent[] = [];
  #epoch: number | undefined;
  readonly #reading = new Serial();

  constructor(storage: MemoryStorage, scope: MemoryScope) {
    this.#storage = storage;
    this.#scope = scope;
  }

  get length(): number {
    return this.#events.length;
  }

  /** The sessions that taught what is in it. */
  get sessions(): TaughtSessions {
    return this.#sessions;
  }

  /** Reads what was appended since, by whomever. One reading at a time: an older answer must not follow a newer one. */
  refresh(): Promise<void> {
    return this.#reading.run(async () => {
      const epoch = await this.#storage.readEpoch();
      if (epoch !== this.#epoch) this.#forget(epoch);
      const afterSeq = this.#events.at(-1)?.seq ?? 0;
      for (const event of await this.#storage.readEvents({ scope: this.#scope, afterSeq })) {
        this.#events.push(event);
        this.#sessions.take(event);
      }
    });
  }

  #forget(epoch: number): void {
    this.#epoch = epoch;
    this.#events = [];
    this.#postings = new Postings();
    this.#views.clear();
    this.#sessions = new TaughtSessions();
  }

  /** For each term the events whose words have it. */
  get postings(): Postings {
    this.#postings.catchUp(this.#events);
    return this.#postings;
  }

  /** What a view sees now. What it saw before is not folded again. */
  see(view: View): Visible {
    const folded = this.#views.get(view.key) ?? new FoldedView();
    keepRecent(this.#views, [view.key, folded], MAX_VIEWS);
    folded.catchUp(this.#events, view);
    return folded;
  }
}

/** Which events have a term in their words, least `seq` first. Made when something is first searched for. */
export class Postings {
  readonly #byTerm = new Map<string, number[]>();
  /** The lists of the terms of a word: most words are said again and again. */
  readonly #byWord = new Map<string, readonly number[][]>();
  #position = 0;

  get(term: string): readonly number[] | undefined {
    return this.#byTerm.get(term);
  }

  catchUp(events: readonly MemoryEvent[]): void {
    for (; this.#position < events.length; this.#position++) {
      const { seq, fields } = events[this.#position] as MemoryEvent;
      if (fields?.content !== undefined) this.#take(seq, fields.content);
    }
  }

  #take(seq: number, content: string): void {
    for (const word of wordsOf(content)) {
      const lists = this.#byWord.get(word) ?? this.#open(word);
      for (const seqs of lists) if (seqs[seqs.length - 1] !== seq) seqs.push(seq);
    }
  }

  #open(word: string): readonly number[][] {
    const lists = termsOfWord(word).map((term) => {
      const seqs = this.#byTerm.get(term) ?? [];
      this.#byTerm.set(term, seqs);
      return seqs;
    });
    this.#byWord.set(word, lists);
    return lists;
  }
}

class FoldedView implements Visible {
  readonly memories = new Map<string, FoldedMemory>();
  readonly bySeq = new Map<number, string>();
  readonly followers = new Map<string, string[]>();
  readonly subjects = new Set<string>();
  readonly slots = new Map<string, Map<string, Set<string>>>();
  readonly over = new Map<string, Since>();
  readonly taken = new Map<string, Taken[]>();
  #position = 0;

  catchUp(events: readonly MemoryEvent[], view: View): void {
    for (; this.#position < events.length; this.#position++) {
      const event = events[this.#position] as MemoryEvent;
      if (view.sees(event)) this.#apply(event);
    }
  }

  #apply(event: MemoryEvent): void {
    const before = this.memories.get(event.memoryId);
    const after = applyEvent(before, event);
    if (before !== undefined) this.bySeq.delete(before.contentSeq);
    if (after === undefined) {
      this.#end(event, before);
      return;
    }
    this.over.delete(event.memoryId);
    this.memories.set(event.memoryId, after);
    this.bySeq.set(after.contentSeq, after.id);
    this.subjects.add(after.fields.subject);
    if (before === undefined) this.#follow(after);
    // What was taken from a turn stands nowhere in the words that correct it.
    if (event.operation === 'UPDATE' && event.fields?.content !== undefined) this.taken.delete(event.memoryId);
    this.#file(event, after.fields);
  }

  /** Also what was only learned again: the turn that said it so has to be known when it no longer holds. */
  #file({ memoryId: id, fields = {} }: MemoryEvent, { slot, subject }: MemoryFields): void {
    const { derivedFrom = [], content: words = '', span } = fields;
    if (slot !== undefined) this.#fileSlot(id, slot, subject);
    for (const turnId of derivedFrom) this.taken.set(turnId, [...(this.taken.get(turnId) ?? []), { id, words, span }]);
  }

  #fileSlot(id: string, slot: string, subject: string): void {
    const bySubject = this.slots.get(slot) ?? new Map<string, Set<string>>();
    this.slots.set(slot, bySubject.set(subject, (bySubject.get(subject) ?? new Set()).add(id)));
  }

  /** Of what was purged the tombstone knows the slot. */
  #end({ memoryId: id, seq, operation, fields }: MemoryEvent, before: FoldedMemory | undefined): void {
    this.memories.delete(id);
    if (before !== undefined) this.over.set(id, before);
    if (operation !== 'PURGE' || fields?.slot === undefined) return;
    const { slot, subject = '', validFromMs = 0 } = fields;
    this.#fileSlot(id, slot, subject);
    this.over.set(id, { saidSinceMs: Math.max(validFromMs, this.over.get(id)?.saidSinceMs ?? 0), contentSeq: seq });
  }

  #follow({ id, fields: { previousId } }: FoldedMemory): void {
    if (previousId === undefined) return;
    const known = this.followers.get(previousId);
    if (known === undefined) this.followers.set(previousId, [id]);
    else if (!known.includes(id)) known.push(id);
  }
}

/** Events of all scopes that are kept in memory; beyond it the scope used longest ago is read again when needed. */
const MAX_EVENTS = 200_000;

/** The logs of the scopes in use. */
export class ScopeLogs {
  readonly #storage: MemoryStorage;
  readonly #logs = new Map<string, ScopeLog>();

  constructor(storage: MemoryStorage) {
    this.#storage = storage;
  }

  /** The log of a scope, caught up. */
  async open(scope: MemoryScope): Promise<ScopeLog> {
    const key = scopeKey(scope);
    const log = this.#logs.get(key) ?? new ScopeLog(this.#storage, scope);
    this.#logs.delete(key);
    this.#logs.set(key, log);
    await log.refresh();
    this.#shrink();
    return log;
  }

  #shrink(): void {
    let total = 0;
    for (const log of this.#logs.values()) total += log.length;
    for (const [key, log] of this.#logs) {
      if (total <= MAX_EVENTS || this.#logs.size === 1) return;
      this.#logs.delete(key);
      total -= log.length;
    }
  }
}
