import { setImmediate } from 'node:timers';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { ConflictError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { stateOf } from '../../manager/agent/agent.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';

/** How a failed save is told. */
export type FailedSave = { readonly agent: object; readonly error: unknown };

type AutoSavesParts = {
  readonly manager: CheckpointManager;
  /** Those that are saved by themselves. */
  readonly agents: () => Iterable<object>;
  /** The last checkpoint of an agent, by whichever process. */
  readonly findLatest: (agent: object) => Promise<Checkpoint | undefined>;
  /** What it rejects with is reported to whoever hears of failing handlers. */
  readonly onFailure: (failed: FailedSave) => Promise<void>;
};

/** What a new agent was made as, and whether an earlier run left a session of it, once somebody asked. */
type Beginning = { readonly digest: string | undefined; earlier?: Promise<Checkpoint | undefined> };

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
  readonly #beginnings = new Map<object, Beginning>();
  readonly #unsaved = new Map<object, unknown>();
  readonly #underWay = new Set<Promise<void>>();
  #isScheduled = false;
  #stopLooking: () => void = () => undefined;

  constructor(parts: AutoSavesParts) {
    this.#parts = parts;
  }

  /** Notes what an agent is before it works: that alone is not saved over what an earlier run left. */
  begin(agent: object): void {
    if (!this.#parts.manager.knows(agent)) this.#beginnings.set(agent, { digest: this.#digestOf(agent) });
  }

  #digestOf(agent: object): string | undefined {
    const { codec } = this.#parts.manager.engine;
    try {
      return codec.encode(stateOf(agent, codec)).root.digest;
    } catch {
      return undefined; // its save says why
    }
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
    if (this.#isScheduled) await endOfTurn(); // later than what was to be done at the end of this one
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
      await this.#saveChanged(agent);
      this.#unsaved.delete(agent);
    } catch (error) {
      const isKnown = this.#unsaved.has(agent) && String(this.#unsaved.get(agent)) === String(error);
      this.#unsaved.set(agent, error);
      const { onFailure, manager } = this.#parts;
      const report = (failure: unknown) => manager.engine.events.report(failure, 'save_failed');
      if (!isKnown) onFailure({ agent, error }).catch(report); // not waited for: it may want to flush
    }
  }

  async #saveChanged(agent: object): Promise<void> {
    const { manager } = this.#parts;
    const options = { type: 'auto', trigger: 'state_changed', ifChanged: true };
    if (manager.knows(agent)) this.#beginnings.delete(agent);
    const beginning = this.#beginnings.get(agent);
    if (beginning === undefined) return void (await manager.save(agent, options));
    const isAsMade = () => beginning.digest !== undefined && beginning.digest === this.#digestOf(agent);
    if (isAsMade()) {
      if ((await this.#findEarlier(agent, beginning)) === undefined && isAsMade()) await manager.save(agent, options);
      return;
    }
    const after = this.#findEarlier(agent, beginning).then((earlier) => {
      const isSavedByHand = manager.knows(agent) && manager.reportOf(agent) === undefined;
      if (earlier !== undefined && !isSavedByHand) throw earlyChange(earlier);
    });
    after.catch(() => undefined); // the save rejects with it, if it gets that far
    await manager.save(agent, { ...options, after }); // the state is read now
  }

  /** Asks once: what this run saves is not of an earlier one. */
  #findEarlier(agent: object, beginning: Beginning): Promise<Checkpoint | undefined> {
    beginning.earlier ??= this.#parts.findLatest(agent).catch((error) => {
      delete beginning.earlier;
      throw error;
    });
    return beginning.earlier;
  }
}

function earlyChange({ sessionId, id }: Checkpoint): ConflictError {
  return new ConflictError(
    `Agent "${sessionId}" changed before it was restored, and an earlier run saved it in ${id}. Nothing was saved over that. Call restore() before the agent works, which brings back the earlier run; or save the agent with checkpointManager.save(agent) to go on from what it is now.`,
    { details: { sessionId, id } },
  );
}
