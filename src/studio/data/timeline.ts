import type { StreamEvent } from '../../server/client/client.ts';
import { live } from './live.ts';
import { ask, type Reply } from './server.ts';

type Columns = Reply<'GET /v1/sessions/{session}/timeline'>;
type NameLists = Columns['names'];
/** Our number of each name of a reply. */
type NumberLists = { readonly [List in keyof NameLists]: readonly number[] };

/** What a flag of a checkpoint means. */
export const FLAG = { deleted: 1, person: 2, branches: 4, failed: 8, drifting: 16, damaged: 32 } as const;

/** First what fills a screen, then the rest in few replies. */
const FIRST_PAGE = 1_000;
const PAGE = 20_000;

/** All checkpoints of a session as columns; grows as saves are told of. The n-th entry of each column is of the n-th checkpoint. */
export class Timeline {
  readonly sessionId: string;
  readonly ids: string[] = [];
  readonly parents: number[] = [];
  readonly timesMs: number[] = [];
  readonly sequences: number[] = [];
  readonly bytes: number[] = [];
  readonly branches: number[] = [];
  readonly statuses: number[] = [];
  readonly triggers: number[] = [];
  readonly types: number[] = [];
  readonly agents: number[] = [];
  readonly messages: number[] = [];
  readonly flags: number[] = [];
  readonly childCounts: number[] = [];
  /** The first checkpoint of the same branch on the way back. */
  readonly starts: number[] = [];
  readonly words = new Map<number, string>();
  /** Who made a checkpoint by hand. */
  readonly persons = new Set<string>();
  readonly names: { [List in keyof NameLists]: string[] } = {
    branches: [],
    types: [],
    triggers: [],
    statuses: [],
    agents: [],
  };
  readonly #places = new Map<string, number>();
  /** The first and the last checkpoint of each branch, by the number of its name. */
  readonly firsts = new Map<number, number>();
  readonly tips = new Map<number, number>();
  /** Branches without a checkpoint of their own, by name: where each begins, and still is. */
  readonly bare = new Map<string, number>();

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  get length(): number {
    return this.ids.length;
  }

  /** Where a checkpoint is, by its id or the beginning of it; -1 if it is not here. */
  find(id: string | undefined): number {
    if (id === undefined) return -1;
    return this.#places.get(id) ?? this.ids.findIndex((known) => known.startsWith(id));
  }

  /** Whether a checkpoint is here, by its whole id. */
  has(id: string): boolean {
    return this.#places.has(id);
  }

  branchOf(at: number): string {
    return this.names.branches[this.branches[at] ?? -1] ?? '';
  }

  agentOf(at: number): string | undefined {
    return this.names.agents[this.agents[at] ?? -1];
  }

  statusOf(at: number): string | undefined {
    return this.names.statuses[this.statuses[at] ?? -1];
  }

  /** Whether somebody is asked there, and the run waits. */
  isAsking(at: number): boolean {
    return /^(waiting|suspended)/.test(this.statusOf(at) ?? '');
  }

  /** The number of the last checkpoint of a branch; -1 if there is none. */
  tipOf(branch: string): number {
    return this.tips.get(this.names.branches.indexOf(branch)) ?? this.bare.get(branch) ?? -1;
  }

  /** How a branch is at a checkpoint. A fork has the status of its origin: nobody runs it before it has a step of its own. */
  statusOn(branch: string, at: number): string | undefined {
    const status = this.statusOf(at);
    const isFork = this.branchOf(at) !== branch || this.names.triggers[this.triggers[at] ?? -1] === 'edited';
    return isFork && /^(initializing|running)$/.test(status ?? '') ? undefined : status;
  }

  /** What a branch is compared with: where it was forked from; the root branch, with the one that began next. */
  pairOf(branch: string): { readonly a: string; readonly b: string | undefined } {
    const first = this.firsts.get(this.names.branches.indexOf(branch)) ?? -1;
    const origin = this.branchOf(this.bare.get(branch) ?? this.parents[first] ?? -1);
    if (origin !== '' && origin !== branch) return { a: origin, b: branch };
    return { a: branch, b: this.branchNames.find((name) => name !== branch) };
  }

  /** All branches, in the order in which they begin. */
  get branchNames(): readonly string[] {
    return [...this.names.branches, ...this.bare.keys()];
  }

  /** Notes where branches are that have no checkpoint of their own yet. */
  placeBare(branches: readonly { readonly name: string; readonly headId: string; readonly isAnswer: boolean }[]): void {
    this.bare.clear();
    for (const { name, headId, isAnswer } of branches) {
      const at = isAnswer || this.names.branches.includes(name) ? -1 : this.find(headId);
      if (at >= 0) this.bare.set(name, at);
    }
  }

  /** A checkpoint and all before it, the newest first. */
  *ancestors(at: number): Generator<number> {
    for (let here = at; here >= 0; here = this.parents[here] ?? -1) yield here;
  }

  /** The checkpoint that brought a message of a branch, by the last checkpoint of it; -1 where that is not known. */
  originOf(tip: number, message: number): number {
    let origin = -1;
    for (const at of this.#countBack(tip)) {
      if (at >= 0 && (this.messages[at] ?? -1) <= message) break;
      origin = at;
    }
    return origin;
  }

  /** Whether a later checkpoint has all messages of an earlier one, at their places. */
  hasMessagesOf(later: number, at: number): boolean {
    const count = this.messages[at] ?? -1;
    for (const here of this.#countBack(later)) {
      if (here === at) return true;
      if (here < 0 || (this.messages[here] ?? -1) < count) return false;
    }
    return false;
  }

  /** The checkpoints that count their messages, the newest first, as far back as messages were only appended; -1 where they were not. */
  *#countBack(tip: number): Generator<number> {
    let newer = -1;
    for (const at of this.ancestors(tip)) {
      if ((this.messages[at] ?? -1) < 0) continue;
      if (newer >= 0 && this.#isRewritten(newer, this.messages[at] ?? -1)) return yield -1;
      newer = at;
      yield at;
    }
  }

  /** As the server sees it: shorter, other than by an edit, or a save that says nothing else and has as many as before. */
  #isRewritten(at: number, before: number): boolean {
    const count = this.messages[at] ?? -1;
    const trigger = this.names.triggers[this.triggers[at] ?? -1];
    return trigger !== 'edited' && (count < before || (count === before && trigger === undefined));
  }

  /** How long after the message before it was brought one was; undefined of the first. */
  sinceMessageBefore(at: number): number | undefined {
    let before = this.parents[at] ?? -1;
    for (let next = before; next >= 0 && this.messages[next] === this.messages[before]; next = this.parents[next] ?? -1)
      before = next;
    return before < 0 ? undefined : (this.timesMs[at] ?? 0) - (this.timesMs[before] ?? 0);
  }

  /** Adds what a reply brought; returns how many were new. */
  add(columns: Columns): number {
    const before = this.length;
    const numbers = this.#takeNames(columns.names);
    const places: number[] = [];
    for (const [n, id] of columns.ids.entries()) {
      const known = this.#places.get(id);
      places.push(known ?? this.length);
      if (known === undefined) this.#push(columns, { n, places, numbers });
    }
    return this.length - before;
  }

  #takeNames(names: NameLists): NumberLists {
    const numbersOf = (list: keyof NameLists): number[] =>
      names[list].map((name) => {
        const known = this.names[list].indexOf(name);
        return known >= 0 ? known : this.names[list].push(name) - 1;
      });
    return {
      branches: numbersOf('branches'),
      types: numbersOf('types'),
      triggers: numbersOf('triggers'),
      statuses: numbersOf('statuses'),
      agents: numbersOf('agents'),
    };
  }

  #push(columns: Columns, row: { n: number; places: readonly number[]; numbers: NumberLists }): void {
    const { n, places, numbers } = row;
    const at = this.length;
    const named = (list: keyof NameLists): number => numbers[list][columns[list][n] ?? -1] ?? -1;
    const parent = this.#parentOf(columns, n, places);
    const branch = named('branches');
    this.#places.set(columns.ids[n] ?? '', at);
    this.ids.push(columns.ids[n] ?? '');
    this.parents.push(parent);
    if (parent >= 0) this.childCounts[parent] = (this.childCounts[parent] ?? 0) + 1;
    this.childCounts.push(0);
    this.timesMs.push(columns.startMs + (columns.sinceMs[n] ?? 0));
    this.sequences.push(columns.sequences[n] ?? 0);
    this.bytes.push(columns.bytes[n] ?? 0);
    this.branches.push(branch);
    this.types.push(named('types'));
    this.triggers.push(named('triggers'));
    this.statuses.push(named('statuses'));
    this.agents.push(named('agents'));
    this.messages.push(columns.messages[n] ?? -1);
    const isOnBranch = parent >= 0 && this.branches[parent] === branch;
    this.starts.push(isOnBranch ? (this.starts[parent] ?? at) : at);
    // A reply knows a fork only if it has the parent, too.
    this.flags.push((columns.flags[n] ?? 0) | (parent >= 0 && !isOnBranch ? FLAG.branches : 0));
    if (!this.firsts.has(branch)) this.firsts.set(branch, at);
    this.tips.set(branch, at);
    this.#note(at, columns.words[String(n)]);
  }

  /** What was said about it, and by whom if a person made it. */
  #note(at: number, words: string | undefined): void {
    if (words !== undefined) this.words.set(at, words);
    if (((this.flags[at] ?? 0) & FLAG.person) !== 0) this.persons.add(this.agentOf(at) ?? '');
  }

  #parentOf(columns: Columns, n: number, places: readonly number[]): number {
    const parent = columns.parents[n] ?? -1;
    if (parent >= 0) return places[parent] ?? -1;
    return parent === -2 ? (this.#places.get(columns.elsewhere[String(n)] ?? '') ?? -1) : -1;
  }
}

/** A timeline, and how far it is read. `version` counts up with every change. */
export type TimelineView = {
  readonly timeline: Timeline;
  readonly version: number;
  readonly isLoading: boolean;
  readonly error: Error | undefined;
};

/** Reads a timeline, the newest page first, and then follows it. */
export class TimelineReader {
  readonly #sessionId: string;
  readonly #tell: () => void;
  #view: TimelineView;
  /** What is read so far, the newest page first; and what came meanwhile. Empty once all is read. */
  #pages: Columns[] = [];
  #news: Columns[] = [];
  #missing = new Set<string>();
  #isAsking = false;
  #isWhole = false;

  constructor(sessionId: string, tell: () => void) {
    this.#sessionId = sessionId;
    this.#view = { timeline: new Timeline(sessionId), version: 0, isLoading: true, error: undefined };
    this.#tell = tell;
  }

  get view(): TimelineView {
    return this.#view;
  }

  /** Reads all, and follows until the returned function is called. */
  start(): () => void {
    const stop = live.listen((event) => this.#hear(event));
    void this.#readAll();
    return stop;
  }

  /** The end is shown at once, however long the history is; the rest with the last page of it. */
  async #readAll(): Promise<void> {
    this.#pages = [];
    this.#news = [];
    try {
      for (let cursor: string | undefined; ; ) {
        const page = await this.#ask({
          limit: cursor === undefined ? FIRST_PAGE : PAGE,
          last: true,
          ...(cursor !== undefined && { cursor }),
        });
        this.#pages.push(page);
        const isFirst = cursor === undefined && !this.#isWhole;
        cursor = page.next;
        this.#isWhole ||= cursor === undefined;
        if (isFirst || cursor === undefined) this.#show({ timeline: this.#join(), isLoading: cursor !== undefined });
        if (cursor === undefined) break;
      }
      this.#pages = [];
      this.#news = [];
      void this.#readMissing();
    } catch (error) {
      this.#show({ isLoading: false, error: error as Error });
    }
  }

  #join(): Timeline {
    const timeline = new Timeline(this.#sessionId);
    for (const page of this.#pages.toReversed()) timeline.add(page);
    for (const page of this.#news) timeline.add(page);
    return timeline;
  }

  #hear({ event, sessionId, checkpointId }: StreamEvent): void {
    if (event === 'resync') void this.#readAll();
    if (sessionId !== this.#sessionId || checkpointId === undefined || event !== 'checkpoint') return;
    if (!this.#view.timeline.has(checkpointId)) this.#missing.add(checkpointId);
    void this.#readMissing();
  }

  /** Saves that come while one reply is under way are asked for together. */
  async #readMissing(): Promise<void> {
    if (this.#isAsking || (this.#pages.length === 0 && !this.#isWhole)) return;
    this.#isAsking = true;
    try {
      while (this.#missing.size > 0) {
        const ids = [...this.#missing].slice(0, 500);
        for (const id of ids) this.#missing.delete(id);
        const page = await this.#ask({ ids: ids.join(',') });
        if (this.#view.isLoading) this.#news.push(page);
        if (this.#view.timeline.add(page) > 0) this.#show({});
      }
    } catch {
      // Gone again already, or the server is: the next event or the new connection tells.
    } finally {
      this.#isAsking = false;
    }
  }

  async #ask(query: Readonly<Record<string, unknown>>): Promise<Columns> {
    return ask('GET /v1/sessions/{session}/timeline', {
      params: { session: this.#sessionId },
      query: query as never,
    });
  }

  #show(change: Partial<TimelineView>): void {
    this.#view = { ...this.#view, error: undefined, ...change, version: this.#view.version + 1 };
    this.#tell();
  }
}
