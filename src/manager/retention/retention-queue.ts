import { AsyncLocalStorage } from 'node:async_hooks';
import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { RetentionRunner } from './retention-runner.ts';

/** So many saves may be ahead of retention; then the next one waits. It bounds how far a history grows above its limits. */
const MAX_BEHIND = 256;

type Noted = { readonly checkpoint: Checkpoint; readonly saves: number };

/**
 * Whose retention called the caller, such as a handler: it must not wait for that. One for all managers, because Node asks each one
 * about every promise of the program from its first use on.
 */
const inside = new AsyncLocalStorage<readonly RetentionQueue[]>();

/** Applies retention after saves without making them wait. What several saves ask for is done once. */
export class RetentionQueue {
  readonly #runner: RetentionRunner;
  readonly #onError: (error: unknown) => void;
  readonly #noted = new Map<string, Noted>();
  #round: Promise<void> | undefined;
  #behind = 0;
  #isStopped = false;

  constructor(runner: RetentionRunner, onError: (error: unknown) => void) {
    this.#runner = runner;
    this.#onError = onError;
  }

  /** Leaves what a save may have pushed out for later. Waits only if too much is left already. */
  async note(checkpoint: Checkpoint): Promise<void> {
    if (this.#isStopped || !this.#runner.isConcernedBy(checkpoint)) return;
    const key = keyOf(checkpoint);
    const saves = (this.#noted.get(key)?.saves ?? 0) + 1;
    this.#noted.set(key, { checkpoint, saves });
    this.#behind++;
    const callers = inside.getStore() ?? [];
    this.#round ??= inside.run(callers.includes(this) ? callers : [...callers, this], () => this.#run());
    if (this.#behind > MAX_BEHIND) await this.settled();
  }

  /** Resolves when what was noted until now is done. */
  async settled(): Promise<void> {
    if (inside.getStore()?.includes(this) === true) return;
    await this.#round;
    await this.#round; // the one after that, with what was noted while the first was under way
  }

  async #run(): Promise<void> {
    await undefined; // the save that began this comes first
    const round = [...this.#noted.values()];
    this.#noted.clear();
    for (const { checkpoint, saves } of round) {
      if (!this.#isStopped) await this.#apply(checkpoint);
      this.#behind -= saves;
    }
    this.#round = this.#noted.size > 0 ? this.#run() : undefined;
  }

  /** What was saved is durable, so no save hears of a failure. A storage that cannot delete is not asked again. */
  async #apply(checkpoint: Checkpoint): Promise<void> {
    try {
      await this.#runner.afterSave(checkpoint);
    } catch (error) {
      this.#isStopped = hasErrorCode(error, 'UNSUPPORTED');
      this.#onError(error);
    }
  }
}

/** As JSON, so that no two are the same by chance. */
function keyOf({ type, agentId, sessionId, userId }: Checkpoint): string {
  return JSON.stringify([type, agentId ?? null, agentId === undefined ? sessionId : null, userId ?? null]);
}
