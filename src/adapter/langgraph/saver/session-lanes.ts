import { CapturedValues } from '../../../core/codec/captured-values.ts';
import type { NearState } from '../../../core/codec/near-state.ts';
import type { EncodedState, StateCodec } from '../../../core/codec/state-codec.ts';
import { keepRecent } from '../../../core/keep-recent.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { SessionId } from '../../../core/record/id.ts';
import type { Engine, SessionKeeper, ShadowBudget, ShadowHolder } from '../../../manager/engine/engine.ts';
import { sessionOf, type ThreadPlace } from '../record/thread-session.ts';
import type { WriteBucket } from './write-bucket.ts';

/** A stored checkpoint and what it was encoded to: what the next one is encoded against. */
type Tip = { readonly checkpoint: Checkpoint; readonly encoded: EncodedState };

/** Shadows kept per session: the one a run goes on from, and those of a few that branched off. */
const MAX_TIPS = 4;
/** Checkpoints whose writes are remembered per session; those of older ones are read again. */
const MAX_BUCKETS = 32;
/** Every call of a subgraph has a namespace of its own, so that lanes come and go; those not used for long are dropped. */
const MAX_LANES = 1024;
/** How often a read looks whether all is stored. A graph that runs on meanwhile may never let it be. */
const SETTLING_ROUNDS = 3;
/**
 * A node that waits for something does so a few hops of promises after its state was handed over. Of one that does not LangGraph has
 * the next state after some 75: what is begun now is stored by then, if the storage is quick. Only speed depends on this number.
 */
const PATIENT_HOPS = 20;

/**
 * What one saver remembers of a session, and the order of what it does there. Everything here can be forgotten at any time:
 * the storage knows it all.
 */
export class SessionLane implements ShadowHolder {
  readonly place: ThreadPlace;
  readonly sessionId: SessionId;
  /** What tasks wrote, for the checkpoint that will hold it. */
  readonly written = new CapturedValues();
  readonly #shadows: ShadowBudget;
  readonly #tips = new Map<string, Tip>();
  readonly #buckets = new Map<string, WriteBucket>();
  /** The branches that were written or read here last: a run may be on any of them. */
  readonly branches = new Map<string, true>();
  #lastTurn: Promise<unknown> = Promise.resolve();
  /** What pieces of work left to the storage when they let the next one begin. */
  readonly #rests = new Set<Promise<unknown>>();
  #waiting = 0;

  constructor(place: ThreadPlace, shadows: ShadowBudget) {
    this.place = place;
    this.sessionId = sessionOf(place);
    this.#shadows = shadows;
  }

  get isIdle(): boolean {
    return this.#waiting === 0;
  }

  /**
   * Runs one piece of work after those before it, in the order of the calls, and a little later, so that the graph comes to wait for
   * its model first. A piece that calls `pass` lets the next begin already: the rest of it is on its way to the storage, which
   * keeps the order too.
   */
  async inOrder<Result>(
    work: (pass: (rest: Promise<unknown>) => void) => Promise<Result>,
    { canWait = true } = {},
  ): Promise<Result> {
    const lull = canWait ? waitPatiently() : undefined;
    const before = this.#lastTurn;
    let end = (): void => undefined;
    this.#lastTurn = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#waiting++;
    try {
      await before;
      await lull;
      return await work((rest) => {
        this.#noteRest(rest);
        end();
      });
    } finally {
      this.#waiting--;
      end();
    }
  }

  /** Resolves when all that was begun here is stored or has failed, so that a read finds it. */
  async settled(): Promise<void> {
    for (let round = 0; round < SETTLING_ROUNDS && !this.isIdle; round++) {
      await this.#lastTurn;
      await this.restsAreOver();
      await waitPatiently(); // LangGraph may have waited for this with the next one
    }
  }

  #noteRest(rest: Promise<unknown>): void {
    const forget = (): void => void this.#rests.delete(rest);
    this.#rests.add(rest);
    rest.then(forget, forget);
  }

  /** Resolves when what pieces of work left to the storage is over. */
  async restsAreOver(): Promise<void> {
    await Promise.allSettled(this.#rests);
  }

  findTip(graphId: string): Tip | undefined {
    return this.#tips.get(graphId);
  }

  /** Takes a tip out. A shadow goes on into one state only: what two share could be stored with one of them alone. */
  takeTip(graphId: string): Tip | undefined {
    const tip = this.#tips.get(graphId);
    this.#tips.delete(graphId);
    return tip;
  }

  keepTip(graphId: string, tip: Tip): void {
    keepRecent(this.#tips, [graphId, tip], MAX_TIPS);
    keepRecent(this.branches, [tip.checkpoint.branch, true], MAX_TIPS);
    const sizeBytes = [...this.#tips.values()].reduce((sum, { encoded }) => sum + encoded.sizeBytes, 0);
    this.#shadows.touch(this, sizeBytes);
  }

  /** What the newest tip knows: most of any state of the session. */
  nearState(codec: StateCodec): NearState | undefined {
    const tip = [...this.#tips.values()].at(-1);
    return tip === undefined ? undefined : codec.nearState(tip.encoded);
  }

  forgetShadow(): void {
    this.#tips.clear();
    this.written.clear();
  }

  findBucket(graphId: string): WriteBucket | undefined {
    return this.#buckets.get(graphId);
  }

  keepBucket(graphId: string, bucket: WriteBucket): WriteBucket {
    keepRecent(this.#buckets, [graphId, bucket], MAX_BUCKETS);
    return bucket;
  }

  /** Forgets what turned out to be wrong, unless it is better known by now. */
  forgetBucket(graphId: string, bucket: WriteBucket): void {
    if (this.#buckets.get(graphId) === bucket) this.#buckets.delete(graphId);
  }

  /** Forgets everything, because the storage was changed beside it. */
  clear(): void {
    this.forgetShadow();
    this.#buckets.clear();
    this.#shadows.release(this);
  }
}

/** The lanes of all sessions a saver is at work in. */
export class SessionLanes implements SessionKeeper {
  readonly #shadows: ShadowBudget;
  readonly #lanes = new Map<string, SessionLane>();

  constructor({ shadows, keepers }: Pick<Engine, 'shadows' | 'keepers'>) {
    this.#shadows = shadows;
    keepers.add(this);
  }

  open(place: ThreadPlace): SessionLane {
    const sessionId = sessionOf(place);
    const lane = this.#lanes.get(sessionId) ?? new SessionLane(place, this.#shadows);
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

  get openBranches(): Iterable<{ readonly id: SessionId; readonly branch: string }> {
    return [...this.#lanes.values()].flatMap(({ sessionId: id, branches }) =>
      [...branches.keys()].map((branch) => ({ id, branch })),
    );
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

async function waitPatiently(): Promise<void> {
  for (let hop = 0; hop < PATIENT_HOPS; hop++) await undefined;
}
