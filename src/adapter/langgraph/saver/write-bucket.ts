import { WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint';
import type { Digest } from '../../../core/tree/chunk.ts';
import { digestOf, type StoredWrites, type WriteCall } from '../record/write-record.ts';

type Call = {
  readonly taskId: string;
  readonly channels: readonly string[];
  /** Tells one value from an array of one, which have the same digest. */
  readonly shape: string;
  readonly digest: Digest | undefined;
};

type KnownCall = Call & { readonly generation: number };

/** The generation of a call whose commit failed, and whether a child has taken it along meanwhile. */
type Expected = { readonly generation: number; readonly isTaken: boolean };

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
  readonly #isRead: boolean;

  /** Without what is stored, there is believed to be nothing. */
  constructor(stored?: readonly StoredWrites[], { count = 0, hasChild = false } = {}) {
    this.#isRead = stored !== undefined;
    for (const row of stored ?? []) {
      const call = describe({ taskId: row.name, writes: row.writes, digest: digestOf(row) });
      this.#calls.push({ ...call, generation: row.generation });
    }
    this.#count = count;
    this.#hasChild = hasChild;
  }

  /** Whether the storage has said so: by what was read, or by taking what was added. */
  get isCertain(): boolean {
    return this.#isRead || this.#calls.length > 0;
  }

  /** How many rows the storage has; the next one gets this as its ordinal. */
  get count(): number {
    return this.#count;
  }

  /** Whether no child has taken a generation yet that this process wrote to. */
  isOpen(generation: number): boolean {
    return this.#open.includes(generation);
  }

  /**
   * Notes a call. Returns its generation, or undefined if it is stored already and says nothing new. `expected`: where it was to be
   * stored when that failed.
   */
  add(call: WriteCall, expected?: Expected): number | undefined {
    const known = describe({ ...call, digest: call.root.digest });
    for (const generation of this.#candidates(expected)) {
      const own = this.#calls.filter((other) => other.generation === generation && other.taskId === call.taskId);
      const isStored = own.some((other) => isRepeated(other, known));
      if (!isStored && own.some((other) => overlaps(other, known))) continue;
      if (!isStored) return this.#note(known, generation, expected);
      if (generation === expected?.generation) this.#leave(generation, expected);
      return undefined;
    }
    return this.#note(known, this.#calls.length === 0 ? 0 : this.#last() + 1, expected);
  }

  #candidates(expected: Expected | undefined): readonly number[] {
    const found = this.#open.length > 0 || this.#hasChild ? this.#open : this.#stored();
    return expected === undefined ? [...found] : [expected.generation, ...found];
  }

  #note(call: Call, generation: number, expected: Expected | undefined): number {
    this.#leave(generation, expected);
    this.#calls.push({ ...call, generation });
    this.#count++;
    return generation;
  }

  /** Leaves a generation to the next child, unless one has taken it. */
  #leave(generation: number, expected: Expected | undefined): void {
    const isTaken = generation === expected?.generation && expected.isTaken;
    if (!isTaken && !this.#open.includes(generation)) this.#open.push(generation);
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

/** The number of a write within its task. Negative for special channels, of which a task has one each and the last counts. */
export function writeIndex(channel: string, at: number): number {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? at) : at;
}
