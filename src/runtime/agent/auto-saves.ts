import { setImmediate } from 'node:timers';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';

/** How a failed save is told. */
export type FailedSave = { readonly agent: object; readonly error: unknown };

type AutoSavesParts = {
  readonly manager: CheckpointManager;
  /** Those that are saved by themselves. */
  readonly agents: () => Iterable<object>;
  readonly onFailure: (failed: FailedSave) => void;
};

/** How often agents are looked at that do not tell of their changes; and how much of the time that may take. */
const LOOK_EVERY_MS = 1_000;
const MAX_SHARE = 0.05;

/**
 * Saves agents that changed. One that tells of its changes is saved once per turn of the event loop: several changes in one turn are one
 * checkpoint, with the state at its end. The others are looked at again and again, and at every flush. Whether an agent changed is seen
 * from its state, whatever that is made of; a session stores saves in the order they were made.
 */
export class AutoSaves {
  readonly #parts: AutoSavesParts;
  readonly #changed = new Set<object>();
  readonly #unsaved = new Map<object, unknown>();
  readonly #underWay = new Set<Promise<void>>();
  #isScheduled = false;
  #stopLooking: () => void = () => undefined;

  constructor(parts: AutoSavesParts) {
    this.#parts = parts;
  }

  /** Looks at all agents from time to time, until it is stopped. Does not keep the process alive. */
  start(delayMs = LOOK_EVERY_MS): void {
    const { setTimer } = this.#parts.manager.engine.ports;
    this.#stopLooking = setTimer(() => this.#look(), { delayMs, keepsProcessAlive: false });
  }

  stop(): void {
    this.#stopLooking();
  }

  #look(): void {
    const { now } = this.#parts.manager.engine.ports;
    const beginMs = now();
    if (this.#underWay.size === 0) this.#saveAll(this.#parts.agents());
    this.start(Math.max(LOOK_EVERY_MS, (now() - beginMs) / MAX_SHARE));
  }

  /** Notes that an agent is not as it was saved. */
  mark(agent: object): void {
    this.#changed.add(agent);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#saveAll(this.#changed);
      this.#changed.clear();
    });
  }

  /** Ends when every agent is stored as it is now; throws if one could not be saved. */
  async flush(): Promise<void> {
    for (const agent of this.#parts.agents()) this.mark(agent);
    if (this.#isScheduled) await endOfTurn();
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    const [error] = this.#unsaved.values();
    if (this.#unsaved.size > 0) throw error;
  }

  #saveAll(agents: Iterable<object>): void {
    for (const agent of agents) {
      const save = this.#save(agent).finally(() => this.#underWay.delete(save));
      this.#underWay.add(save);
    }
  }

  async #save(agent: object): Promise<void> {
    try {
      await this.#parts.manager.save(agent, { type: 'auto', trigger: 'state_changed', ifChanged: true });
      this.#unsaved.delete(agent);
    } catch (error) {
      const isKnown = this.#unsaved.has(agent) && String(this.#unsaved.get(agent)) === String(error);
      this.#unsaved.set(agent, error);
      if (!isKnown) this.#parts.onFailure({ agent, error });
    }
  }
}

/** Later than what was to be done at the end of the turn before it was called. */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
