import { setImmediate } from 'node:timers';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';

/** How a failed save is told. */
export type FailedSave = { readonly agent: object; readonly error: unknown };

/**
 * Saves what changed, once per turn of the event loop: several changes in one turn are one checkpoint, and the state at the end of the turn
 * is always saved. The state is taken when the turn ends, and a session stores saves in the order they were made.
 */
export class AutoSaves {
  readonly #manager: CheckpointManager;
  readonly #changed = new Set<object>();
  readonly #unsaved = new Map<object, unknown>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #onFailure: (failed: FailedSave) => void;
  #isScheduled = false;

  constructor(manager: CheckpointManager, onFailure: (failed: FailedSave) => void) {
    this.#manager = manager;
    this.#onFailure = onFailure;
  }

  /** Notes that an agent is not as it was saved. */
  mark(agent: object): void {
    this.#changed.add(agent);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#saveChanged());
  }

  /** Ends when all that changed until now is stored; throws if an agent could not be saved, also at another try. */
  async flush(): Promise<void> {
    for (const agent of this.#unsaved.keys()) this.mark(agent);
    if (this.#isScheduled) await endOfTurn();
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    const [error] = this.#unsaved.values();
    if (this.#unsaved.size > 0) throw error;
  }

  #saveChanged(): void {
    this.#isScheduled = false;
    for (const agent of this.#changed) {
      const save = this.#save(agent).finally(() => this.#underWay.delete(save));
      this.#underWay.add(save);
    }
    this.#changed.clear();
  }

  async #save(agent: object): Promise<void> {
    try {
      await this.#manager.save(agent, { type: 'auto', trigger: 'state_changed' });
      this.#unsaved.delete(agent);
    } catch (error) {
      this.#unsaved.set(agent, error);
      this.#onFailure({ agent, error });
    }
  }
}

/** Later than what was to be done at the end of the turn before it was called. */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
