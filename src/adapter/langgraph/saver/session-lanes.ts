import type { SessionId } from '../../../core/record/id.ts';
import type { Engine, SessionKeeper } from '../../../manager/engine/engine.ts';
import { Lull } from '../../../storage/lull.ts';
import { type Place, sessionOf } from '../record/thread-session.ts';
import { SessionLane } from './session-lane.ts';

/** Every call of a subgraph has a namespace of its own, so that lanes come and go; those not used for long are dropped. */
const MAX_LANES = 1024;

/**
 * A node that waits for something does so a few hops of promises after its state was handed over. Of one that does not LangGraph has
 * the next state after some 75: what is begun now is stored by then.
 */
const PATIENT_HOPS = 20;

/** The lanes of all sessions a saver is at work in. */
export class SessionLanes implements SessionKeeper {
  readonly #engine: Engine;
  readonly #lanes = new Map<string, SessionLane>();
  /** One for all: a graph that never waits may write to the lanes of its subgraphs only. */
  readonly #lull = new Lull(async (end, isOver) => {
    for (let hop = 0; hop < PATIENT_HOPS; hop++) {
      await undefined;
      if (isOver()) return;
    }
    end();
  });

  constructor(engine: Engine) {
    this.#engine = engine;
    engine.keepers.add(this);
  }

  open(place: Place): SessionLane {
    const sessionId = sessionOf(place);
    const lane = this.#lanes.get(sessionId) ?? new SessionLane(place, this.#engine, this.#lull);
    this.#lanes.delete(sessionId);
    this.#lanes.set(sessionId, lane);
    if (this.#lanes.size > MAX_LANES) this.#dropOldest(lane);
    return lane;
  }

  /** Changes a session behind its lane's back: after what is under way there, and what the lane knew is forgotten. */
  async alone<Result>(sessionId: SessionId, work: () => Promise<Result>): Promise<Result> {
    const lane = this.#lanes.get(sessionId);
    if (lane === undefined) return work();
    return lane.inOrder(async () => {
      await lane.restsAreOver();
      try {
        return await work();
      } finally {
        lane.clear();
      }
    });
  }

  forget(sessionId: SessionId): void {
    this.#lanes.get(sessionId)?.clear();
  }

  whileIdle(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean> {
    this.forget(sessionId); // so that what is captured meanwhile is whole
    return this.alone(sessionId, end);
  }

  /** Resolves when all that was begun in any lane is stored or has failed. */
  async settled(): Promise<void> {
    const busy = [...this.#lanes.values()].filter((lane) => !lane.isIdle);
    await Promise.all(busy.map((lane) => lane.settled()));
  }

  /** Drops none if all are at work: two lanes of one session would not know of each other. */
  #dropOldest(opened: SessionLane): void {
    for (const [sessionId, lane] of this.#lanes) {
      if (!lane.isIdle || lane === opened) continue;
      lane.clear();
      this.#lanes.delete(sessionId);
      return;
    }
  }
}
