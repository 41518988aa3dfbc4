import type { EncodedState } from '../../core/codec/state-codec.ts';
import { hasErrorCode } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import { findLeftOut, marksIn } from '../../core/secret/left-out.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import { givenForm } from '../../manager/effect/input-digest.ts';
import { type DriftEvent, textOf } from '../drift/step/drift-event.ts';
import type { LoopParts } from './loop-options.ts';
import { type AgentMind, type Job, mindOf } from './state/agent-state.ts';
import { type ErrorText, errorText, secretLeftOut } from './state/error-text.ts';
import { findPending, type PendingMessage } from './state/mailbox.ts';
import type { TurnOutcome } from './turn/live-agent.ts';
import { finishRollbacks, GUARD_PREFIX, type OperationLog, openRollbacks } from './turn/operation.ts';
import { copyOf } from './turn/turn-draft.ts';
import { TurnRun } from './turn/turn-run.ts';
import { Waits } from './turn/waits.ts';

/** Ends of turns at a task that are remembered; work that goes round through more states is not noticed. */
const MAX_WORK_ENDS = 16;
/** Turns in a row that learn and change nothing, and may still be a wait for something, which the loop paces. */
const MAX_POLLS = 40;

/** Takes turns: lets the agent at a job, within its time, under the eyes of the drift watch. */
export class TurnTaker {
  readonly #parts: LoopParts;
  readonly #operations: OperationLog;
  #running: TurnRun | undefined;
  /** What is under way and should have ended. */
  readonly #late = new Set<object>();
  #encoded: EncodedState | undefined;
  #isStopping = false;
  /** How the last turns at the task ended: the state, and what the turn found out. */
  readonly #workEnds = new Set<string>();
  /** What the last turn at the task found out: its agent may go by that. */
  #workFindings: string | undefined;
  readonly #waits: Waits;
  /** Turns in a row that went at the task and changed nothing. */
  idleTurns = 0;

  constructor(parts: LoopParts, operations: OperationLog) {
    this.#parts = parts;
    this.#operations = operations;
    this.#waits = new Waits(parts.ports.now);
  }

  /** Whether something is under way that should have ended. */
  get isOverdue(): boolean {
    return this.#late.size > 0;
  }

  /** Does something that is no turn, and is overdue if it takes longer than one may. */
  async inTime<Result>(work: () => Promise<Result>): Promise<Result> {
    const cancel = this.#after(this.#parts.settings.turnTimeoutMs, () => this.#late.add(work));
    try {
      return await work();
    } finally {
      cancel();
      this.#late.delete(work);
    }
  }

  /** Ends the turn under way, as far as the agent lets it be ended; it is taken up again after the restart. */
  stop(): void {
    this.#isStopping = true;
    this.#running?.abort(new DOMException('The loop stops.', 'AbortError'));
    this.#parts.live.watch.stop();
  }

  /** One attempt at a job. Rejects only if the loop stops: then nothing is known of how the turn would have ended. */
  async take(job: Job, attempt: StepAttempt): Promise<TurnOutcome> {
    const { live, ports, settings } = this.#parts;
    const turn = live.nextTurn;
    const refusal = this.#refuse(job, attempt.attempt);
    if (refusal !== undefined) return this.#giveUp(job, attempt, refusal);
    const run = this.#begin(job, attempt);
    const cancel = this.#limit(run);
    let end: { readonly stateDigest?: string } = {};
    try {
      const before = this.#digestOf(mindOf(live.state));
      await this.#letAct(job, run).finally(() => run.end());
      const { mind, patches } = run.finish();
      run.throwIfDrifting(); // whatever the agent made of being told so
      // What cannot be saved is found here, where it fails its turn, and not where it is saved.
      end = this.#endAt(job, run.findings, { before, after: this.#digestOf(mind) });
      const used = live.current?.work.used ?? [];
      return { turn, job, atMs: ports.now(), status: 'done', patches, ...(used.length > 0 && { used }) };
    } catch (error) {
      if (this.#isStopping) throw this.#tellLate(job, run, error);
      // What made it drift is dealt with, and counted, as drift.
      const isFinal = !run.isDrifting && live.failuresOf(job) + 1 >= settings.maxFailures;
      run.fail(error, isFinal);
      return await this.#fail(job, errorText(error), isFinal);
    } finally {
      cancel();
      this.#end(run);
      await live.watch.assess({ kind: 'cycle', ...end });
    }
  }

  /** A turn that was aborted because the loop stops is taken again; that it failed otherwise would not be known. */
  #tellLate(job: Job, { signal }: TurnRun, error: unknown): unknown {
    const told = errorText(error);
    if (error !== signal.reason && told.name !== 'AbortError')
      this.#parts.tell({ kind: 'turn', job, status: 'failed', error: told });
    return error;
  }

  #end(run: TurnRun): void {
    run.close();
    this.#waits.endTurn();
    this.#running = undefined;
  }

  /** A job that is not tried. What an attempt was taking back when it died is taken back first, unless it died of that. */
  async #giveUp(job: Job, attempt: StepAttempt, refusal: ErrorText): Promise<TurnOutcome> {
    await this.#parts.live.current?.work.recall();
    if (this.#openRollbacks.length === 0) return this.#fail(job, refusal, true);
    const run = this.#begin(job, attempt);
    const cancel = this.#limit(run);
    try {
      await finishRollbacks(run.undoing, this.#parts.settings.maxFailures);
    } catch (error) {
      if (this.#isStopping) throw error; // otherwise it is told as not finished
    } finally {
      cancel();
      this.#end(run);
    }
    return this.#fail(job, refusal, true);
  }

  get #openRollbacks(): readonly string[] {
    const { live } = this.#parts;
    const { tools = {} } = live.open();
    const hasUndo = (tool: string): boolean => Object.hasOwn(tools, tool) && tools[tool]?.undo !== undefined;
    return openRollbacks(live.current?.work.made ?? [], hasUndo).map(({ key }) => key.slice(GUARD_PREFIX.length));
  }

  /** What was done for a message that is given up goes with it: a person may have it taken up again. */
  async #fail(job: Job, error: ErrorText, isFinal: boolean): Promise<TurnOutcome> {
    const { live, ports } = this.#parts;
    const end = { turn: live.nextTurn, job, atMs: ports.now(), status: 'failed', error, isFinal } as const;
    if (!isFinal || live.current === undefined) return end;
    // An attempt that died with its process left what it did in the log, which lets go of it now.
    await live.current.work.recall();
    const { record: work } = live.current.work;
    const open = this.#openRollbacks;
    const whole = open.length === 0 ? end : { ...end, error: withRollbacks(error, open) };
    return work.done.length > 0 ? { ...whole, work } : whole;
  }

  /**
   * A turn at the task got nowhere if it ends as an earlier one did, or changes nothing and hears what the last one heard, as it may
   * after a message that changed the state. One that handles a message may leave everything as it is.
   */
  #endAt(
    { kind }: Job,
    findings: string,
    { before, after }: { readonly before: string; readonly after: string },
  ): { readonly stateDigest?: string } {
    const stateDigest = `${after} ${findings}`;
    const isAgain = before === after && findings === this.#workFindings;
    const isIdle = kind === 'work' && (isAgain || this.#workEnds.has(stateDigest));
    this.idleTurns = isIdle ? this.idleTurns + 1 : 0;
    if (kind === 'message' || this.#workEnds.size === MAX_WORK_ENDS) this.#workEnds.clear();
    if (kind === 'message') return {};
    this.#workEnds.add(stateDigest);
    this.#workFindings = findings;
    return { stateDigest };
  }

  /** Why a job is not tried: its message is gone or lost a secret, it killed its process, or may not be tried twice. */
  #refuse(job: Job, attempt: number): ErrorText | undefined {
    const { live, settings } = this.#parts;
    const message = this.#messageOf(job);
    if (job.kind === 'message' && message === undefined)
      return { name: 'NotFoundError', message: `Message "${job.messageId}" is not in the mailbox.` };
    const lost = message && this.#refuseWithoutSecret(message);
    const isOnce = message?.delivery === 'at-most-once';
    const attempts = attempt + live.failuresOf(job);
    if (lost !== undefined || attempt === 1 || (!isOnce && attempts <= settings.maxFailures)) return lost;
    return {
      name: 'Interrupted',
      message: `The process ended ${formatCount(attempt - 1, 'time')} while this was done.`,
    };
  }

  /** A string that looks as if a secret had stood there is let through if the body is what was delivered. */
  #refuseWithoutSecret({ id, body, digest }: PendingMessage): ErrorText | undefined {
    const isWhole = digest === undefined || givenForm(digest) === givenForm(this.#parts.session.digestOf({ body }));
    const place = findLeftOut(body, isWhole ? undefined : marksIn(body));
    if (place === undefined) return undefined;
    return secretLeftOut(
      `The secret at ${place} of the body of message "${id}" is not stored, so it was not handled after the restart. Deliver it again with the same id and body and call resume({ retry: ["${id}"] }), or deliver it with a new id.`,
    );
  }

  #messageOf(job: Job): PendingMessage | undefined {
    return job.kind === 'work' ? undefined : findPending(this.#parts.live.state.mailbox, job.messageId);
  }

  #begin(job: Job, attempt: StepAttempt): TurnRun {
    const { live } = this.#parts;
    const { work } = live.start(job);
    live.isActing = true;
    const jobOf = this.#jobsOf(job);
    this.#waits.beginTurn(job.kind === 'work' && this.idleTurns > 0);
    const run: TurnRun = new TurnRun({
      work,
      attempt: work.attempt + attempt.attempt - 1,
      codec: this.#codec,
      agent: live.open(),
      mind: mindOf(live.state),
      operations: this.#operations,
      waits: this.#waits,
      jobOf,
      observe: (event) => {
        const seen = { job: jobOf(true), ...event };
        return this.#observe({ ...seen, ...(seen.kind === 'call' && this.#stateDigest(run, seen.job)) });
      },
      isStopping: () => this.#isStopping,
      onProblem: live.onProblem,
      leftOut: live.leftOut,
    });
    this.#running = run;
    return run;
  }

  /**
   * What the watch is told that something is done for. A task that got on is another job, and so is what is done after a wait. But a
   * step after a pause of the loop is not, which may be a model that thinks the same again: only a tool has news by then, and only
   * so often without any.
   */
  #jobsOf(job: Job): (isTool: boolean) => string {
    const { task } = this.#parts.live.state;
    const what = job.kind === 'message' ? `message ${job.messageId}` : `work ${this.#codec.encode(task).root.digest}`;
    return (isTool) =>
      `${what} ${this.#waits.own}${isTool && this.idleTurns < MAX_POLLS ? ` ${this.#waits.pauses}` : ''}`;
  }

  #observe(event: DriftEvent): boolean {
    return this.#parts.live.watch.observe(event).status === 'drifting';
  }

  /** Ends a turn when its time is up, by timers: the clock may be set meanwhile. One that goes on after that is overdue. */
  #limit(run: TurnRun): () => void {
    let cancel = this.#after(this.#parts.settings.turnTimeoutMs, () => {
      run.abort(new DOMException('The turn took too long.', 'TimeoutError'));
      cancel = this.#after(1, () => this.#late.add(run));
    });
    return () => {
      cancel();
      this.#late.delete(run);
    };
  }

  #after(delayMs: number, run: () => void): () => void {
    return this.#parts.ports.setTimer(run, { delayMs, keepsProcessAlive: false });
  }

  async #letAct(job: Job, run: TurnRun): Promise<void> {
    const { live } = this.#parts;
    const agent = live.open();
    live.watch.tellGoals(live.state.context.goals);
    if (job.kind === 'work') return agent.work?.(run);
    const message = this.#messageOf(job);
    if (message === undefined) return;
    // The turn is not to blame for what others say.
    const said = { role: 'user', agent: message.from ?? 'user', text: textOf(message.body) };
    this.#observe({ job: this.#jobsOf(job)(true), kind: 'message', ...said });
    const { digest: _, ...seen } = message;
    // A copy where freezing does not protect it: nothing that is done to it may change the mailbox.
    await agent.handle(copyOf(this.#codec, seen), run);
  }

  /**
   * An equal call on an equal state is a loop for certain. So everything belongs to it that the agent may go by: the message it
   * handles, and what it found out in this turn.
   */
  #stateDigest(run: TurnRun, at: string): { readonly stateDigest?: string } {
    try {
      return { stateDigest: `${this.#digestOf(run.look())} ${run.findings} ${this.#workFindings ?? ''} ${at}` };
    } catch (error) {
      // What cannot be saved may be gone when the turn ends.
      if (hasErrorCode(error, 'INVALID_INPUT')) return {};
      throw error;
    }
  }

  /** What did not change since the last time costs nothing. Throws if something in it cannot be saved. */
  #digestOf(mind: AgentMind): string {
    this.#encoded = this.#codec.encode(mind, this.#encoded);
    return this.#encoded.root.digest;
  }

  get #codec() {
    return this.#parts.manager.engine.plainCodec;
  }
}

/** What is left half taken back is said where the message is given up. */
function withRollbacks({ name, message }: ErrorText, open: readonly string[]): ErrorText {
  const rest = 'is not finished: resume({ retry }) with the id of the message goes on with it.';
  return { name, message: `${message} The rollback of ${open.map((each) => `"${each}"`).join(', ')} ${rest}` };
}
