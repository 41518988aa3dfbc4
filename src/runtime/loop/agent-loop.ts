import type { AgentState } from './agent-state.ts';
import { Inbox } from './inbox.ts';
import type { LoopListener } from './loop-events.ts';
import { type AgentLoopOptions, type LoopParts, openParts } from './loop-parts.ts';
import { type Message, takeBack } from './mailbox.ts';
import { type LoopEnding, TurnLoop } from './turn-loop.ts';

/** How a loop is stopped. */
export type StopOptions = {
  /** Whether to save once more; default true. */
  readonly checkpoint?: boolean;
  /** How long the turn under way may take to end; then it is aborted, and taken up again by the next run. Default: 5 seconds. */
  readonly graceMs?: number;
};

const DEFAULT_GRACE_MS = 5000;

/**
 * Drives an agent for days: hands it its messages one by one, lets it go on with its task in between, saves it on schedule, and
 * brings it back when it drifts. One loop is one run of the agent in this process.
 */
export class AgentLoop {
  readonly #parts: LoopParts;
  readonly #inbox: Inbox;
  readonly #loop: TurnLoop;
  #run: Promise<LoopEnding> | undefined;
  #close: Promise<void> | undefined;
  #isSavedAtEnd = false;

  private constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#inbox = new Inbox(parts.session, parts.live);
    this.#loop = new TurnLoop(parts);
  }

  /** Opens an agent where it was left, or begins it. Nothing runs before `run`. */
  static async open(options: AgentLoopOptions): Promise<AgentLoop> {
    const loop = new AgentLoop(await openParts(options));
    await loop.#loop.recovery.open();
    await loop.#inbox.open();
    return loop;
  }

  /** What the agent knows as of its last turn. */
  get state(): AgentState {
    return this.#parts.live.state;
  }

  get status(): 'running' | 'escalated' | 'ended' {
    if (this.#close !== undefined || this.#loop.ending !== undefined) return 'ended';
    return this.state.loop.escalation === null ? 'running' : 'escalated';
  }

  /** Calls a listener for everything that happens; answers how to stop that. */
  on(listener: LoopListener): () => void {
    return this.#parts.events.on(listener);
  }

  /** Puts a message into the mailbox; answers whether it is a new one. Resolves when it is durable. */
  async deliver(message: Message): Promise<boolean> {
    const isNew = await this.#inbox.deliver(message);
    this.#loop.alarm.ring();
    return isNew;
  }

  /** Drives the agent until it is stopped. Rejects if another process took it over, or its storage was closed. */
  async run(): Promise<LoopEnding> {
    this.#run ??= this.#loop.run().finally(() => this.#end());
    return this.#run;
  }

  /** Lets a loop that runs go on after an escalation; messages that were set aside may be tried again. */
  async resume({ retry = [] }: { readonly retry?: readonly string[] } = {}): Promise<void> {
    const { live, checkpoints } = this.#parts;
    await this.#loop.awake;
    live.change({ mailbox: takeBack(live.state.mailbox, new Set(retry)) });
    this.#loop.recovery.forgive();
    await checkpoints.take({ type: 'routine', trigger: 'resumed' });
    this.#loop.alarm.ring();
  }

  /** Ends the run: after the turn under way, if that ends in time. Saves, and lets others have the agent. Idempotent. */
  async stop({ checkpoint = true, graceMs = DEFAULT_GRACE_MS }: StopOptions = {}): Promise<void> {
    this.#isSavedAtEnd ||= checkpoint;
    this.#loop.end('stopped');
    await Promise.race([this.#run?.catch(() => undefined), this.#waitFor(graceMs)]);
    this.#loop.turns.stop();
    await this.#end();
  }

  async #waitFor(delayMs: number): Promise<void> {
    if (this.#run === undefined) return;
    const { setTimer } = this.#parts.ports;
    await new Promise<void>((resolve) => {
      const cancel = setTimer(resolve, { delayMs, keepsProcessAlive: false });
      void this.#run?.catch(() => undefined).finally(cancel);
    });
  }

  /** What a turn that did not end has done so far is saved with the rest. */
  async #end(): Promise<void> {
    this.#close ??= this.#saveAndClose();
    return this.#close;
  }

  async #saveAndClose(): Promise<void> {
    const { live, checkpoints, session, tell } = this.#parts;
    this.#loop.end('stopped');
    try {
      if (this.#isSavedAtEnd && live.isAwake) await checkpoints.tryTake({ type: 'routine', trigger: 'stopped' });
    } finally {
      await session.close();
      tell({ kind: 'stopped', reason: this.#loop.ending ?? 'stopped' });
    }
  }
}
