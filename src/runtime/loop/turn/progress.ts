import type { EncodedState, StateCodec } from '../../../core/codec/state-codec.ts';
import type { AgentMind, Job } from '../state/agent-state.ts';

/** Ends of turns at a task that are remembered; work that goes round through more states is not noticed. */
const MAX_WORK_ENDS = 16;
/** Turns in a row that learn and change nothing, and may still be a wait for something, which the loop paces. */
const MAX_POLLS = 40;
/** Time between two calls that is no accident: whoever lets it pass waits for something. */
const WAIT_MS = 1000;

/**
 * Whether an agent gets anywhere, over all its turns: by what its state becomes, what it finds out, and how often it waits before it
 * goes on. What it lets pass inside a call, such as that of a model, is no wait: so a poll can be told from a loop, whose calls follow
 * each other.
 */
export class Progress {
  readonly #codec: StateCodec;
  readonly #now: () => number;
  #encoded: EncodedState | undefined;
  /** How the last turns at the task ended: the state, and what the turn found out. */
  readonly #workEnds = new Set<string>();
  /** What the last turn at the task found out: its agent may go by that. */
  #workFindings = '';
  /** Turns in a row that went at the task and changed nothing. */
  idleTurns = 0;
  #doneFor = '';
  #quietSinceMs: number;
  #openCalls = 0;
  /** Waits of the agent's own, in the middle of a turn or at its end. */
  #waits = 0;
  /** Pauses that the loop made between two turns. */
  #pauses = 0;

  constructor(codec: StateCodec, now: () => number) {
    this.#codec = codec;
    this.#now = now;
    this.#quietSinceMs = now();
  }

  /** A pause of the loop counts whatever its length. */
  beginTurn(job: Job, { task }: AgentMind): void {
    this.#doneFor =
      job.kind === 'message' ? `message ${job.messageId}` : `work ${this.#codec.encode(task).root.digest}`;
    this.#openCalls = 0; // what an earlier turn left under way is not waited for
    const waits = this.#takeWait();
    this.#pauses += job.kind === 'work' && this.idleTurns > 0 ? 1 : waits;
  }

  endTurn(): void {
    this.#waits += this.#takeWait();
  }

  /** A call begins; returns what is to be called when it ends. */
  beginCall(): () => void {
    this.#waits += this.#takeWait();
    this.#openCalls++;
    return () => {
      this.#openCalls--;
      this.#quietSinceMs = this.#now();
    };
  }

  /** 1 if nothing was done for a while, else 0; begins to count anew. */
  #takeWait(): number {
    const nowMs = this.#now();
    const isWait = this.#openCalls === 0 && nowMs - this.#quietSinceMs >= WAIT_MS;
    this.#quietSinceMs = nowMs;
    return isWait ? 1 : 0;
  }

  /**
   * What the watch is told that something is done for. A task that got on is another job, and so is what is done after a wait. But a
   * step after a pause of the loop is not, which may be a model that thinks the same again: only a tool has news by then, and only
   * so often without any.
   */
  jobOf(isTool: boolean): string {
    const pauses = isTool && this.idleTurns < MAX_POLLS ? ` ${this.#pauses}` : '';
    return `${this.#doneFor} ${this.#waits}${pauses}`;
  }

  /** What did not change since the last time costs nothing. Throws if something in it cannot be saved. */
  digestOf(mind: AgentMind): string {
    this.#encoded = this.#codec.encode(mind, this.#encoded);
    return this.#encoded.root.digest;
  }

  /** All that an agent may go by: an equal call on an equal state is a loop for certain. */
  stateDigest(mind: AgentMind, findings: string, job = ''): string {
    return `${this.digestOf(mind)} ${findings} ${this.#workFindings} ${job}`;
  }

  /**
   * A turn at the task got nowhere if it ends as an earlier one did, or changes nothing and hears what the last one heard, as it may
   * after a message that changed the state. One that handles a message may leave everything as it is. Returns how it ended.
   */
  settle(
    { kind }: Job,
    findings: string,
    change: { readonly before: string; readonly after: string },
  ): string | undefined {
    if (kind === 'message') {
      this.idleTurns = 0;
      this.#workEnds.clear();
      return undefined;
    }
    const end = `${change.after} ${findings}`;
    const isAgain = change.before === change.after && findings === this.#workFindings;
    this.idleTurns = isAgain || this.#workEnds.has(end) ? this.idleTurns + 1 : 0;
    if (this.#workEnds.size === MAX_WORK_ENDS) this.#workEnds.clear();
    this.#workEnds.add(end);
    this.#workFindings = findings;
    return end;
  }
}
