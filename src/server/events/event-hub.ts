import { randomBytes } from 'node:crypto';
import { addTo } from '../../core/group-by.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Tail } from '../../view/tail.ts';

/** Something that happened: ids only. */
export type HubEvent = {
  readonly number: number;
  readonly event: 'checkpoint' | 'deleted' | 'refs' | 'run';
  readonly sessionId?: string;
  readonly checkpointId?: string;
  readonly branch?: string;
};

type Listener = (events: readonly HubEvent[]) => void;

/** So many events can be gone back to. */
const KEPT_EVENTS = 1_000;
/** The pause between two looks: short beside what a page needs to show a checkpoint, longer where looking takes long. */
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS] = [50, 200];
/** Listeners are told at most so often, of all that happened since: hundreds of them must not hold up whoever saves. */
const TELL_EVERY_MS = 40;
/** Names change seldom, and all of them are read. */
const NAMES_EVERY_MS = 2_000;
/** Whoever lost a connection comes back within this time, and misses nothing. */
const LINGER_MS = 60_000;

/**
 * Hears of what any process saves, for all who listen: from the manager's own events at once, from the storage's watch where it has
 * one, and by looking for new checkpoints and names now and then. It works while somebody listens, and a little longer.
 */
export class EventHub {
  /** Tells ids of this stretch of time from others, in which events may have been missed. */
  epoch = '';
  readonly #manager: CheckpointManager;
  readonly #onError: (error: unknown) => void;
  readonly #listeners = new Set<Listener>();
  #kept: HubEvent[] = [];
  #last = 0;
  #refs = new Map<string, string>();
  #tail: Tail | undefined;
  #starting: Promise<void> | undefined;
  #stops: (() => unknown)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #lingering: NodeJS.Timeout | undefined;
  #untold: HubEvent[] = [];
  #telling: NodeJS.Timeout | undefined;
  #namesReadMs = 0;

  constructor(manager: CheckpointManager, onError: (error: unknown) => void) {
    this.#manager = manager;
    this.#onError = onError;
  }

  /** The number of the newest event. */
  get last(): number {
    return this.#last;
  }

  /** The events after a number; undefined if some of them are gone. */
  since(number: number): readonly HubEvent[] | undefined {
    const oldest = this.#kept[0]?.number ?? this.#last + 1;
    return number + 1 < oldest || number > this.#last ? undefined : this.#kept.filter((event) => event.number > number);
  }

  /** Resolves when whatever is saved from then on will be told; returns a function that stops it. */
  async listen(listener: Listener): Promise<() => void> {
    clearTimeout(this.#lingering);
    this.#starting ??= this.#open().catch((error: unknown) => {
      this.stop();
      throw error;
    });
    await this.#starting;
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#lingering = setTimeout(() => this.stop(), LINGER_MS);
      this.#lingering.unref();
    };
  }

  async #open(): Promise<void> {
    const { engine } = this.#manager;
    const tail = new Tail(this.#manager, {});
    this.#tail = tail;
    this.epoch = randomBytes(6).toString('base64url');
    const tell = (checkpoint: Checkpoint) => this.#tellSaved(checkpoint);
    this.#stops = [
      engine.events.on('checkpoint_saved', tell),
      engine.events.on('checkpoint_deleted', (checkpointId) => this.tell({ event: 'deleted', checkpointId })),
    ];
    if (engine.storage.watch !== undefined) {
      const subscription = this.#manager.on('checkpoint_saved', tell, { from: 'everywhere' });
      this.#stops.push(subscription);
      await subscription.ready;
    }
    await tail.readNew();
    await this.#readRefs(() => undefined);
    this.#poll(tail);
  }

  /** Looks, then waits, until it is stopped. */
  #poll(tail: Tail, pauseMs = SHORTEST_PAUSE_MS): void {
    this.#timer = setTimeout(async () => {
      const startMs = performance.now();
      await this.#look(tail, startMs).catch(this.#onError);
      const restMs = 10 * (performance.now() - startMs);
      if (this.#tail === tail) this.#poll(tail, Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, restMs)));
    }, pauseMs);
    this.#timer.unref();
  }

  async #look(tail: Tail, nowMs: number): Promise<void> {
    const isWatched = this.#manager.engine.storage.watch !== undefined;
    if (!isWatched) for (const checkpoint of await tail.readNew()) this.#tellNow(checkpoint);
    if (nowMs - this.#namesReadMs < NAMES_EVERY_MS) return;
    this.#namesReadMs = nowMs;
    await this.lookAtNames();
  }

  /** Tells of sessions whose branches, tags or pins are others than before. */
  async lookAtNames(): Promise<void> {
    if (this.#tail !== undefined) await this.#readRefs((sessionId) => this.tell({ event: 'refs', sessionId }));
  }

  async #readRefs(tell: (sessionId: string) => void): Promise<void> {
    const names = new Map<string, string[]>();
    for (const { sessionId, kind, name, target } of await this.#manager.engine.storage.readRefs())
      if (kind !== 'lease' && kind !== 'due' && kind !== 'log')
        // A branch that moves is a save, which is told anyway.
        addTo(names, sessionId, `${kind} ${name} ${kind === 'branch' ? '' : target}`);
    const digests = new Map([...names].map(([sessionId, list]) => [sessionId, digestText(list.join('\n'))]));
    const before = this.#refs;
    this.#refs = digests;
    for (const sessionId of new Set([...before.keys(), ...digests.keys()]))
      if (before.get(sessionId) !== digests.get(sessionId)) tell(sessionId);
  }

  #tellSaved(checkpoint: Checkpoint): void {
    if (this.#tail?.note(checkpoint.id) === true) this.#tellNow(checkpoint);
  }

  #tellNow({ id, sessionId, branch }: Checkpoint): void {
    this.tell({ event: 'checkpoint', sessionId, checkpointId: id, branch });
  }

  /** Tells something to all who listen. */
  tell(what: Omit<HubEvent, 'number'>): void {
    const event = { number: ++this.#last, ...what };
    this.#kept.push(event);
    if (this.#kept.length > KEPT_EVENTS) this.#kept = this.#kept.slice(-KEPT_EVENTS);
    if (this.#listeners.size === 0) return;
    this.#untold.push(event);
    this.#telling ??= setTimeout(() => this.#tellAll(), 0);
  }

  /** What comes within the pause after it waits for the next time. */
  #tellAll(): void {
    const events = this.#untold;
    this.#untold = [];
    this.#telling = events.length === 0 ? undefined : setTimeout(() => this.#tellAll(), TELL_EVERY_MS);
    this.#telling?.unref();
    for (const listener of this.#listeners) listener(events);
  }

  /** Ends the looking; the next listener begins a new stretch of time. Idempotent. */
  stop(): void {
    clearTimeout(this.#lingering);
    clearTimeout(this.#timer);
    clearTimeout(this.#telling);
    this.#telling = undefined;
    this.#untold = [];
    for (const stop of this.#stops) stop();
    this.#stops = [];
    this.#starting = undefined;
    this.#tail = undefined;
    this.#kept = [];
  }
}
