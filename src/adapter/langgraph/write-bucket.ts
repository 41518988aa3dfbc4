import type { Digest } from '../../core/chunk.ts';
import { digestOf, type StoredWrites, type WriteCall, writeIndex } from './write-record.ts';

type Call = {
  readonly taskId: string;
  readonly channels: readonly string[];
  /** Tells one value from an array of one, which have the same digest. */
  readonly shape: string;
  readonly digest: Digest | undefined;
};

type KnownCall = Call & { readonly generation: number };

/** The writes a child takes along. `isOwn`: this process wrote them for it. */
export type TakenWrites = { readonly generation: number | undefined; readonly isOwn: boolean };

/**
 * What is known of the writes to one checkpoint. They come in generations: each child that is put takes one of them along, so
 * that two that branch off the same checkpoint keep what is their own, although LangGraph gives their tasks the same ids.
 */
export class WriteBucket {
  readonly #calls: KnownCall[] = [];
  /** Generations that this process wrote to and no child has taken yet, oldest first. */
  readonly #open: number[] = [];
  /** Whether a child was put: what is written from now on belongs to another. */
  #hasChild: boolean;
  #count: number;

  constructor(stored: readonly StoredWrites[] = [], { count = 0, hasChild = false } = {}) {
    for (const row of stored) {
      const call = describe({ taskId: row.name, writes: row.writes, digest: digestOf(row) });
      this.#calls.push({ ...call, generation: row.generation });
    }
    this.#count = count;
    this.#hasChild = hasChild;
  }

  /** How many rows the storage has; the next one gets this as its ordinal. */
  get count(): number {
    return this.#count;
  }

  /** Notes a call. Answers its generation, or undefined if it is stored already and says nothing new. */
  add(call: WriteCall): number | undefined {
    const known = describe({ ...call, digest: call.root.digest });
    const generation = this.#choose(known);
    if (generation === undefined) return undefined;
    if (!this.#open.includes(generation)) this.#open.push(generation);
    this.#calls.push({ ...known, generation });
    this.#count++;
    return generation;
  }

  #choose(call: Call): number | undefined {
    const candidates = this.#open.length > 0 || this.#hasChild ? this.#open : this.#stored();
    for (const generation of candidates) {
      const own = this.#calls.filter((known) => known.generation === generation && known.taskId === call.taskId);
      if (own.some((known) => isRepeated(known, call))) return undefined;
      if (!own.some((known) => overlaps(known, call))) return generation;
    }
    return this.#calls.length === 0 ? 0 : this.#last() + 1;
  }

  /** The generation a run finds when it goes on from this checkpoint. */
  #stored(): number[] {
    return this.#calls.length === 0 ? [] : [this.#last()];
  }

  #last(): number {
    return Math.max(...this.#calls.map(({ generation }) => generation));
  }

  /** What a new child takes along. A later child has a right to what was written for it only: to nothing, if that is not its own. */
  take(): TakenWrites {
    this.#hasChild = true;
    const own = this.#open.shift();
    return own === undefined ? { generation: this.#stored()[0], isOwn: false } : { generation: own, isOwn: true };
  }
}

function describe({ taskId, writes, digest }: Pick<WriteCall, 'taskId' | 'writes'> & Pick<Call, 'digest'>): Call {
  return { taskId, channels: writes.map(([channel]) => channel), shape: JSON.stringify(writes), digest };
}

/** A repetition of ordinary writes changes nothing; one of special writes may put back what another replaced. */
function isRepeated(known: Call, { channels, shape, digest }: Call): boolean {
  return known.digest === digest && known.shape === shape && channels.every((name, at) => writeIndex(name, at) >= 0);
}

/** Whether two calls of one task give an ordinary write the same number. */
function overlaps(known: Call, { channels }: Call): boolean {
  return channels.some((channel, at) => {
    const other = known.channels[at];
    return writeIndex(channel, at) >= 0 && other !== undefined && writeIndex(other, at) >= 0;
  });
}
