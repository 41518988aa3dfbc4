import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { backoff, spread } from '../../core/time/backoff.ts';
import { sleep } from '../../core/time/timer.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { isHolderDead, nameHolder } from '../../manager/lease/lease-refs.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import { tryCommit } from '../../storage/refusal.ts';

/** Where a branch is, and whose turn it is to write there, if one was asked for. */
export type BranchHead = {
  readonly branch: string;
  readonly headId: CheckpointId | undefined;
  readonly turn: string | undefined;
};

/** Races that a change may lose before it asks for a turn. */
const FREE_RACES = 2;

/** A turn that was not used for this long is taken over: its holder was killed on another machine, or hangs. */
const ABANDONED_MS = 5_000;

/** A change that is refused for this long while nobody else gets through is not slow: something is wrong. */
const STUCK_MS = 60_000;

const PAUSES = { firstMs: 2, maxMs: 30 };

/** Reads whose turn it is on a branch from the refs of its session. */
export function findTurn(refs: readonly Ref[], branch: string): string | undefined {
  const mark = markOf(branch);
  return refs.find(({ kind, name }) => kind === mark.kind && name === mark.name)?.target;
}

function markOf(branch: string): Pick<Ref, 'kind' | 'name'> {
  return { kind: 'mark', name: `turn:${digestText(branch)}` };
}

/**
 * How one change gets through beside those of others. A writer that is a little quicker would win every race for the head; so a change
 * that lost some marks the next turn as its own, and others wait until it is stored. Who may write is still decided by the head alone.
 */
export class Turn {
  readonly #engine: Engine;
  readonly #sessionId: SessionId;
  #own: RefChange | undefined;
  #losses = 0;
  #pauses = 0;
  #seen: BranchHead | undefined;
  /** How long the head and the turn have been the ones that were seen last. */
  #sameHeadMs = 0;
  #sameTurnMs = 0;

  constructor(engine: Engine, sessionId: SessionId) {
    this.#engine = engine;
    this.#sessionId = sessionId;
  }

  /** What the commit of the change says of the turn: that it is over. */
  get refs(): readonly RefChange[] {
    return this.#own === undefined ? [] : [this.#own];
  }

  /** Makes attempts, each on the head as it is then, until one is not undefined: `lost` was called in that. */
  async run<Outcome extends { readonly status: string }>(
    findHead: () => Promise<BranchHead>,
    attempt: (head: BranchHead) => Promise<Outcome | undefined>,
  ): Promise<Outcome> {
    let outcome: Outcome | undefined;
    try {
      while (outcome === undefined) {
        const head = await findHead();
        if (await this.#hasCome(head)) outcome = await attempt(head);
      }
      return outcome;
    } finally {
      // Its commit ended the turn, if there was one.
      if (this.#own !== undefined && outcome?.status !== 'stored') await this.#mark(this.#own);
    }
  }

  /** Whether to write now, on this head. If not, this waited, and the head must be read again. */
  async #hasCome(head: BranchHead): Promise<boolean> {
    const { turn, headId } = head;
    this.#look(head);
    if (turn !== undefined && turn === this.#own?.expect) return true;
    this.#own = undefined; // others took it over
    if (turn === undefined && (this.#losses < FREE_RACES || headId === undefined)) return true;
    if (!this.#isFree(turn) || !(await this.#take(head))) await this.#pause();
    return false;
  }

  #isFree(turn: string | undefined): boolean {
    return turn === undefined || this.#sameTurnMs > ABANDONED_MS || isHolderDead({ holder: turn });
  }

  #look(head: BranchHead): void {
    if (head.headId !== this.#seen?.headId) this.#sameHeadMs = 0;
    if (head.turn !== this.#seen?.turn) this.#sameTurnMs = 0;
    this.#seen = head;
  }

  /** Another writer was faster. Returns whether to try again. */
  async lost(): Promise<boolean> {
    this.#losses++;
    if (this.#sameHeadMs > STUCK_MS) return false;
    await this.#pause();
    return true;
  }

  async #pause(): Promise<void> {
    const pauseMs = spread(backoff(++this.#pauses, PAUSES), Math.random());
    this.#sameHeadMs += pauseMs;
    this.#sameTurnMs += pauseMs;
    await sleep(this.#engine.ports, pauseMs);
  }

  async #take({ branch, headId, turn }: BranchHead): Promise<boolean> {
    const [mark, target] = [markOf(branch), nameHolder(this.#engine.ports.nextId())];
    const isTaken = await this.#mark({ ...mark, expect: turn ?? null, target }, headId);
    if (isTaken) this.#own = { ...mark, expect: target, target: null };
    return isTaken;
  }

  /** Whether the mark was as expected, and the session is there. */
  async #mark(change: RefChange, headId?: CheckpointId): Promise<boolean> {
    const requires = headId === undefined ? [] : [headId];
    const commit = { sessionId: this.#sessionId, refs: [change], requires, durability: 'relaxed' } as const;
    return tryCommit(this.#engine.storage, commit);
  }
}
