import { sleep } from '../../core/time/timer.ts';
import type { Ref } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { dueBefore, readClock } from '../lease/lease-refs.ts';
import type { SessionOpener } from '../session/session-opener.ts';
import { parseRecoveryOptions, type RecoveryHandler, type RecoveryOptions } from './recovery-options.ts';
import { type RecoveryReport, RecoveryReporter } from './recovery-report.ts';
import { SessionRecovery } from './session-recovery.ts';

/** Refs that are read together. */
const PAGE = 100;

/** Looks for sessions whose writers are gone. Of all workers that look, exactly one gets each of them. */
export class RecoveryLoop {
  readonly #engine: Engine;
  readonly #options: RecoveryOptions;
  readonly #concurrency: number;
  readonly #recovery: SessionRecovery;
  readonly #reporter = new RecoveryReporter();
  /** How many more sessions this pass may take. */
  #places = 0;

  constructor(
    engine: Engine,
    sessions: SessionOpener,
    { handler, ...options }: RecoveryOptions & { readonly handler: RecoveryHandler },
  ) {
    const terms = parseRecoveryOptions(options);
    this.#engine = engine;
    this.#options = options;
    this.#concurrency = terms.concurrency;
    this.#recovery = new SessionRecovery(engine, sessions, { ...terms, handler });
  }

  /** Makes one pass over what is due, or one after the other until the signal aborts. */
  async run(): Promise<RecoveryReport> {
    const { everyMs, onError } = this.#options;
    do {
      try {
        await this.#pass();
      } catch (error) {
        if (onError === undefined) throw error;
        onError(error);
      }
    } while (everyMs !== undefined && (await this.#pause(everyMs)));
    return this.#reporter.report();
  }

  /** Answers whether to go on. */
  async #pause(everyMs: number): Promise<boolean> {
    await sleep(this.#engine.ports, everyMs, this.#options.signal).catch(() => undefined);
    return this.#options.signal?.aborted !== true;
  }

  /** Takes what is due now, oldest first, each at most once. */
  async #pass(): Promise<void> {
    this.#places = this.#options.limit ?? Number.POSITIVE_INFINITY;
    const before = dueBefore(await readClock(this.#engine), this.#options.isGone);
    const seen = new Set<string>();
    for (let limit = PAGE; this.#mayTake(); ) {
      const due = await this.#engine.storage.readDue({ before, limit });
      const fresh = due.filter((ref) => !seen.has(keyOf(ref)));
      for (const ref of fresh) seen.add(keyOf(ref));
      await this.#takeAll(fresh);
      if (fresh.length === 0 && due.length < limit) return;
      limit = PAGE + due.length - fresh.length; // those that could not be taken stay before the others
    }
  }

  #mayTake(): boolean {
    return this.#places > 0 && this.#options.signal?.aborted !== true;
  }

  async #takeAll(refs: readonly Ref[]): Promise<void> {
    const queue = refs.values();
    const worker = async (): Promise<void> => {
      for (let next = queue.next(); next.done !== true && this.#mayTake(); next = queue.next())
        await this.#take(next.value);
    };
    // All are awaited also when one fails: no handler may still run when the caller is told.
    const outcomes = await Promise.allSettled(Array.from({ length: this.#concurrency }, worker));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async #take(ref: Ref): Promise<void> {
    if (this.#options.isMine?.({ sessionId: ref.sessionId, branch: ref.name }) === false) return;
    this.#places--;
    const result = await this.#recovery.take(ref);
    if (result === undefined) this.#places++;
    else this.#reporter.add(result.end, result.outcome);
    if (result?.end === 'poisoned') this.#options.onPoisoned?.(result.outcome);
  }
}

function keyOf({ sessionId, name }: Ref): string {
  return JSON.stringify([sessionId, name]);
}
