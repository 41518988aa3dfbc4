import { SavestateError } from '../../core/errors.ts';
import type { CommitResult } from '../contract.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { ChunkNumbers } from './chunk-numbers.ts';
import type { PreparedCommit } from './prepared-commit.ts';
import { SqliteWriter } from './sqlite-writer.ts';

/** Taken when this is loaded: tests of our users replace their timers, and a save must not hang on those. */
const onTurn = setImmediate;

/** Commits of one transaction, which blocks the event loop, as do the callers when they go on: a few milliseconds together. */
const MAX_GROUP = 64;
const MIN_GROUP = 8;
const LONG_TURN_MS = 6;
const SHORT_TURN_MS = 3;

type Waiting = {
  readonly prepared: PreparedCommit;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
};

/** A commit that failed after it had written something: the group must be rolled back and repeated without it. */
class SpoiledGroup extends Error {
  readonly waiting: Waiting;
  constructor(waiting: Waiting, cause: SavestateError) {
    super(cause.message, { cause });
    this.waiting = waiting;
  }
}

/** Lets commits that arrive in the same turn of the event loop share one transaction and so one sync. */
export class CommitQueue {
  readonly #connection: SqliteConnection;
  readonly #numbers: ChunkNumbers;
  /** Made for the first commit: who only reads needs none of its statements. */
  #writer: SqliteWriter | undefined;
  /** Ends the wait for more commits. */
  #goOn: () => void = () => undefined;
  #waiting: Waiting[] = [];
  #groupSize = MAX_GROUP;
  #running: Promise<void> | undefined;

  constructor(connection: SqliteConnection, numbers: ChunkNumbers) {
    this.#connection = connection;
    this.#numbers = numbers;
  }

  /**
   * Resolves when the commit is durable. Commits are applied in the order of their arrival; one that cannot be prepared is refused.
   * An urgent one waits no longer for others to share a transaction with.
   */
  add(prepare: () => PreparedCommit): Promise<CommitResult> {
    return new Promise((resolve, reject) => {
      const prepared = prepare();
      this.#waiting.push({ prepared, resolve, reject });
      this.#running ??= this.#run();
      if (prepared.commit.isUrgent === true) this.#goOn();
    });
  }

  /** Resolves at the next turn of the event loop, until which others may bring more, or when something urgent comes. */
  #lull(): Promise<void> {
    return new Promise((resolve) => {
      this.#goOn = resolve;
      onTurn(resolve);
    });
  }

  /** Resolves when everything added so far is decided. */
  async drain(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await this.#lull();
    while (this.#waiting.length > 0) {
      const startedMs = performance.now();
      await this.#flush(this.#waiting.splice(0, this.#groupSize));
      await this.#lull(); // what waited for these commits runs before it
      this.#adapt(performance.now() - startedMs);
    }
    this.#running = undefined;
  }

  /** A turn is the transaction and all that its callers do next. Long turns make smaller groups, so that others get theirs. */
  #adapt(turnMs: number): void {
    if (turnMs > LONG_TURN_MS) this.#groupSize = Math.max(MIN_GROUP, this.#groupSize >> 1);
    else if (turnMs < SHORT_TURN_MS) this.#groupSize = Math.min(MAX_GROUP, this.#groupSize * 2);
  }

  async #flush(group: readonly Waiting[]): Promise<void> {
    if (group.length === 0) return;
    const isRelaxed = group.every(({ prepared }) => prepared.commit.durability === 'relaxed');
    try {
      let isRepeated = false;
      const apply = () => {
        if (isRepeated) this.#numbers.forget(); // what the first attempt gave out was rolled back
        isRepeated = true;
        return this.#apply(group);
      };
      const answers = await this.#connection.write(apply, { isRelaxed });
      for (const answer of answers) answer();
    } catch (error) {
      this.#numbers.forget();
      if (!(error instanceof Error && error.cause instanceof SpoiledGroup)) {
        for (const { reject } of group) reject(error);
        return;
      }
      const { waiting, cause } = error.cause;
      waiting.reject(cause);
      await this.#flush(group.filter((other) => other !== waiting));
    }
  }

  #apply(group: readonly Waiting[]): (() => void)[] {
    this.#numbers.refresh();
    return group.map((waiting) => this.#answer(waiting));
  }

  /** Applies one commit and says what to tell its caller once the transaction has ended well. */
  #answer(waiting: Waiting): () => void {
    let isDirty = false;
    this.#writer ??= new SqliteWriter(this.#connection, this.#numbers);
    try {
      const result = this.#writer.apply(waiting.prepared, () => {
        isDirty = true;
      });
      return () => waiting.resolve(result);
    } catch (error) {
      if (!(error instanceof SavestateError)) throw error;
      if (isDirty) throw new SpoiledGroup(waiting, error);
      return () => waiting.reject(error);
    }
  }
}
