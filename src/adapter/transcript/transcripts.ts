import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Engine, SessionKeeper } from '../../manager/engine/engine.ts';
import { type AdapterStorageOptions, openAdapterEngine, placeOf } from '../adapter-storage.ts';
import { Transcript, type TranscriptPlace } from './transcript.ts';

/** Transcripts that are kept open; those not used for long are opened again. */
const MAX_OPEN = 256;

/** By storage or manager, and adapter: whoever opens an adapter for every request keeps what makes it quick, and nothing piles up. */
const shared = new WeakMap<object, Map<string, Transcripts<unknown>>>();

/** The transcripts that an adapter has in use, one object for each place. */
export class Transcripts<Item> implements SessionKeeper {
  readonly engine: Engine;
  readonly #adapter: string;
  readonly #idField: string;
  readonly #open = new Map<string, Transcript<Item>>();

  constructor(engine: Engine, adapter: string, idField = 'id') {
    this.engine = engine;
    this.#adapter = adapter;
    this.#idField = idField;
    engine.keepers.add(this);
  }

  /** Those of an adapter in a storage, or of a manager; shared, unless there are other settings. */
  static of<Item>(options: AdapterStorageOptions, adapter: string, idField?: string): Transcripts<Item> {
    const place = placeOf(options);
    const known = place === undefined ? undefined : (shared.get(place) ?? new Map<string, Transcripts<unknown>>());
    const transcripts = known?.get(adapter) ?? new Transcripts<unknown>(openAdapterEngine(options), adapter, idField);
    if (place !== undefined && known !== undefined) shared.set(place, known.set(adapter, transcripts));
    return transcripts as Transcripts<Item>;
  }

  open(sessionId: SessionId, branch?: string): Transcript<Item> {
    const key = JSON.stringify([sessionId, branch]);
    const place: TranscriptPlace = { adapter: this.#adapter, sessionId, branch, idField: this.#idField };
    const transcript = this.#open.get(key) ?? new Transcript<Item>(this.engine, place);
    this.#open.delete(key);
    this.#open.set(key, transcript);
    if (this.#open.size > MAX_OPEN) this.#dropOldest(transcript);
    return transcript;
  }

  /** The checkpoint that a transcript is at; reads no items, and opens nothing. */
  head(sessionId: SessionId): Promise<Checkpoint | undefined> {
    return new Transcript(this.engine, { adapter: this.#adapter, sessionId }).head();
  }

  forget(sessionId: SessionId): void {
    for (const transcript of this.#of(sessionId)) transcript.forgetShadow();
  }

  whileIdle(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean> {
    let run = end;
    for (const transcript of this.#of(sessionId)) {
      const inner = run;
      run = () => transcript.alone(inner);
    }
    return run();
  }

  get openBranches(): Iterable<{ readonly id: SessionId; readonly branch: string }> {
    return [...this.#open.values()].flatMap(({ sessionId: id, branch }) =>
      branch === undefined ? [] : [{ id, branch }],
    );
  }

  #of(sessionId: SessionId): Transcript<Item>[] {
    return [...this.#open.values()].filter((transcript) => transcript.sessionId === sessionId);
  }

  /** Drops none that is at work: two of one place would not know of each other. */
  #dropOldest(opened: Transcript<Item>): void {
    for (const [key, transcript] of this.#open) {
      if (!transcript.isIdle || transcript === opened) continue;
      transcript.forgetShadow();
      this.#open.delete(key);
      return;
    }
  }
}
