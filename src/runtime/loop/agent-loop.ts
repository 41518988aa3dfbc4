import { withoutUndefined } from '../../core/defined.ts';
import { ClosedError, ConflictError, hasErrorCode, NotFoundError } from '../../core/errors.ts';
import { checkOptions, delayFrom, filledString, flag, listOf, type OptionChecks } from '../../core/options.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import { type OwnSave, SAVES_ITSELF, type SelfSaving } from '../../manager/agent/agent.ts';
import { isLeaseConflict } from '../../manager/lease/lease-refs.ts';
import { Inbox } from './inbox.ts';
import { type AgentLoopOptions, type LoopParts, openParts, orClose } from './loop-options.ts';
import type { LoopAgentState } from './state/agent-state.ts';
import { type ErrorText, errorText } from './state/error-text.ts';
import type { Message } from './state/mailbox.ts';
import type { LoopListener } from './turn/loop-events.ts';
import { type LoopEnding, TurnLoop } from './turn-loop.ts';

/** How a loop is stopped. */
export type StopOptions = {
  /** Whether to save once more; default true. */
  readonly checkpoint?: boolean | undefined;
  /** How long the turn under way may take to end; then it is aborted, and taken up again by the next run. Default: 5 seconds. */
  readonly graceMs?: number | undefined;
};

const DEFAULT_STOP = { checkpoint: true, graceMs: 5000 };

const STOP: OptionChecks<StopOptions> = { checkpoint: flag, graceMs: delayFrom(0) };

const RESUME = { retry: listOf(filledString) };

/**
 * Drives an agent for days: hands it its messages one by one, lets it go on with its task in between, saves it on schedule, and
 * brings it back when it drifts. One loop is one run of the agent in this process.
 */
export class AgentLoop implements SelfSaving {
  readonly #parts: LoopParts;
  readonly #inbox: Inbox;
  readonly #loop: TurnLoop;
  #run: Promise<LoopEnding> | undefined;
  #close: Promise<void> | undefined;
  #failure: ErrorText | undefined;
  #isSavedAtEnd = false;
  #abandon: (ending: LoopEnding) => void = () => undefined;
  /** Resolves when a turn that does not end is not waited for any more. */
  readonly #abandoned = new Promise<LoopEnding>((resolve) => {
    this.#abandon = resolve;
  });

  private constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#inbox = new Inbox(parts);
    this.#loop = new TurnLoop(parts);
  }

  /** Opens an agent where it was left, or begins it. Nothing runs before `run`; if it fails nothing was taken. */
  static async open(options: AgentLoopOptions): Promise<AgentLoop> {
    const parts = await openParts(options);
    return orClose(parts.session, async () => {
      const loop = new AgentLoop(parts);
      await loop.#inbox.open();
      parts.events.open();
      return loop;
    });
  }

  /** What the agent knows as of its last turn. */
  get state(): LoopAgentState {
    return this.#parts.live.state;
  }

  get status(): 'running' | 'escalated' | 'ended' {
    if (this.#close !== undefined || this.#loop.ending !== undefined) return 'ended';
    return this.#parts.live.loop.escalation === null ? 'running' : 'escalated';
  }

  /** What `manager.save` and `workers.saveGroup` save of it, in its own session; also in the middle of a turn. */
  [SAVES_ITSELF](): OwnSave {
    if (this.#parts.session.isClosed) throw this.#ended('it was not saved');
    return this.#parts.checkpoints.prepare();
  }

  /** Calls a listener for everything that happens; returns a function that stops it. */
  on(listener: LoopListener): () => void {
    return this.#parts.events.on(listener);
  }

  /** Puts a message into the mailbox; returns whether it is a new one. Resolves when it is durable. */
  async deliver(message: Message): Promise<boolean> {
    try {
      return await this.#inbox.deliver(message);
    } catch (error) {
      // Whoever drives the agent now takes its messages: this loop can do nothing more for it, and says so by ending.
      if (hasErrorCode(error, 'CONFLICT')) this.#loop.fail(error);
      throw this.#describe(error, this.#ended('the message was not taken').message);
    } finally {
      this.#loop.alarm.ring();
    }
  }

  /**
   * Drives the agent until it is stopped; then it does not wait for a turn that goes on after it was aborted. Rejects if another
   * process took the agent over, or its storage was closed, and with `CLOSED` if it was stopped before.
   */
  async run(): Promise<LoopEnding> {
    if (this.status === 'ended' && this.#failure === undefined) throw this.#ended('it does not run');
    this.#run ??= Promise.race([this.#drive(), this.#abandoned]);
    return this.#run;
  }

  async #drive(): Promise<LoopEnding> {
    try {
      return await this.#loop.run();
    } catch (error) {
      const told = this.#describe(
        error,
        `The CheckpointManager of agent "${this.#parts.identity.agentId}" was closed while its loop ran, so the loop has ended. Call stop() of the loop first, then close the manager.`,
      );
      this.#failure = errorText(told);
      throw told;
    } finally {
      await this.#end();
    }
  }

  /** The session's errors in the words of a loop. That somebody else changed it means that another loop drives the agent, too. */
  #describe(error: unknown, closed: string): unknown {
    if (hasErrorCode(error, 'CLOSED') && this.#parts.session.isClosed) return new ClosedError(closed, { cause: error });
    if (!hasErrorCode(error, 'CONFLICT') || isLeaseConflict(error)) return error;
    const { agentId } = this.#parts.identity;
    return new ConflictError(
      `Another loop drives agent "${agentId}" too, in this process or another one, and wrote first, so this one has ended. Open loops with the option "lease": then the second is refused, or waits.`,
      { details: { agentId, sessionId: this.#parts.session.id }, cause: error },
    );
  }

  #ended(what: string): ClosedError {
    const { agentId } = this.#parts.identity;
    return new ClosedError(
      `The loop of agent "${agentId}" has ended, so ${what}. Open the agent again with AgentLoop.open().`,
    );
  }

  /** Lets a loop that runs go on after an escalation; messages that were set aside may be tried again. */
  async resume(options: { readonly retry?: readonly string[] } = {}): Promise<void> {
    checkOptions(options, RESUME, 'resume()');
    const { live, checkpoints } = this.#parts;
    const { mailbox, works } = live;
    await this.#awakened();
    const retry = new Set(options.retry);
    const known = new Map(mailbox.setAside.map(({ message, work }) => [message.id, work]));
    const unknown = [...retry].filter((id) => !known.has(id));
    if (unknown.length > 0)
      throw new NotFoundError(
        `Nothing was resumed, because of these messages none is set aside: ${unknown.join(', ')} (set aside: ${[...known.keys()].join(', ') || 'none'}).`,
        { details: { unknown } },
      );
    works.load([...retry].flatMap((id) => known.get(id) ?? []));
    mailbox.takeBack(retry);
    this.#loop.recovery.forgive();
    await checkpoints.take({ type: 'routine', trigger: 'resumed' });
    this.#loop.alarm.ring();
  }

  /** Resolves when the agent is awake; what was recorded is gone through by `run`, so before that nobody knows how it is. */
  async #awakened(): Promise<void> {
    const refuse = (): never => {
      throw this.#ended('nothing was resumed');
    };
    if (this.status === 'ended') refuse();
    if (this.#run === undefined) throw new ClosedError('The loop does not run yet. Call run() first, then resume().');
    await Promise.race([this.#loop.awake, this.#run.then(refuse)]);
  }

  /** Ends the run: after the turn under way, if that ends in time. Saves, and lets others have the agent. Idempotent. */
  async stop(options: StopOptions = {}): Promise<void> {
    checkOptions(options, STOP, 'stop()');
    const { checkpoint, graceMs } = { ...DEFAULT_STOP, ...withoutUndefined(options) };
    this.#isSavedAtEnd ||= checkpoint;
    this.#loop.end('stopped');
    await this.#runFor(graceMs);
    this.#loop.turns.stop();
    await this.#end().finally(() => this.#abandon(this.#loop.ending ?? 'stopped'));
  }

  /** Waits for the run, whatever becomes of it, but no longer than this. */
  async #runFor(timeoutMs: number): Promise<void> {
    const { setTimer } = this.#parts.ports;
    const deadline = { timeoutMs, setTimer, onTimeout: () => new Error('It goes on.') };
    await withDeadline(deadline, () => this.#run).catch(() => undefined);
  }

  async #end(): Promise<void> {
    this.#close ??= this.#saveAndClose();
    return this.#close;
  }

  /** What a turn that did not end has done so far is saved with the rest. */
  async #saveAndClose(): Promise<void> {
    const { live, session, manager, tell } = this.#parts;
    this.#loop.end('stopped');
    const error = this.#failure;
    try {
      if (this.#isSavedAtEnd && live.isAwake) await this.#loop.saveLast();
    } finally {
      await session.close();
      await manager.engine.settled(); // whoever looks next, from anywhere, sees what retention left
      const reason = error === undefined ? (this.#loop.ending ?? 'stopped') : 'failed';
      tell({ kind: 'stopped', reason, ...(error !== undefined && { error }) });
    }
  }
}
