import type { SessionId } from '../../core/id.ts';
import type { ManagerContext } from '../../manager/context.ts';
import { LoopTurn } from '../../storage/loop-turn.ts';
import { SessionLane } from './session-lane.ts';
import { type Place, sessionOf } from './thread-session.ts';

/** Every call of a subgraph has a namespace of its own, so that lanes come and go; those not used for long are dropped. */
const MAX_LANES = 1024;

/** The lanes of all sessions a saver is at work in. */
export class SessionLanes {
  readonly #context: ManagerContext;
  readonly #lanes = new Map<string, SessionLane>();
  /** One for all: a graph that lets no event loop turn may write to the lanes of its subgraphs only. */
  readonly #turn = new LoopTurn();

  constructor(context: ManagerContext) {
    this.#context = context;
  }

  open(place: Place): SessionLane {
    const sessionId = sessionOf(place);
    const lane = this.#lanes.get(sessionId) ?? new SessionLane(place, this.#context, this.#turn);
    this.#lanes.delete(sessionId);
    this.#lanes.set(sessionId, lane);
    if (this.#lanes.size > MAX_LANES) this.#dropOldest();
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

  #dropOldest(): void {
    for (const [sessionId, lane] of this.#lanes) {
      if (!lane.isIdle) continue;
      lane.clear();
      this.#lanes.delete(sessionId);
      return;
    }
  }
}
