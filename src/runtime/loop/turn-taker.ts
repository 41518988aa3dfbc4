import { formatCount } from '../../core/format-count.ts';
import { findLeftOut, marksIn } from '../../core/secret/left-out.ts';
import { givenForm } from '../../manager/effect/input-digest.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import { textOf } from '../drift/step/drift-event.ts';
import type { LoopParts } from './loop-options.ts';
import type { Job } from './state/agent-state.ts';
import { type ErrorText, errorText, secretLeftOut } from './state/error-text.ts';
import type { PendingMessage } from './state/mailbox.ts';
import type { TurnOutcome } from './turn/live-agent.ts';
import { toolOf } from './turn/loop-agent.ts';
import { openRollbacks } from './turn/operation.ts';
import { Progress } from './turn/progress.ts';
import { copyOf } from './turn/turn-draft.ts';
import { TurnRun } from './turn/turn-run.ts';

/** Takes turns: lets the agent at a job, within its time, under the eyes of the drift watch. */
export class TurnTaker {
  readonly #parts: LoopParts;
  readonly #progress: Progress;
  #running: TurnRun | undefined;
  /** What is under way and should have ended. */
  readonly #late = new Set<object>();
  #isStopping = false;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#progress = new Progress(this.#codec, parts.ports.now);
  }

  get #codec() {
    return this.#parts.manager.engine.plainCodec;
  }

  /** Turns in a row that went at the task and changed nothing. */
  get idleTurns(): number {
    return this.#progress.idleTurns;
  }

  get isOverdue(): boolean {
    return this.#late.size > 0;
  }

  /** Does something, and calls `onLate` if it takes longer than a turn may; it is overdue then. Timers say so: the clock may be set meanwhile. */
  async inTime<Result>(work: () => Promise<Result>, onLate: () => void = () => undefined): Promise<Result> {
    const { ports, settings } = this.#parts;
    const after = (delayMs: number, run: () => void) => ports.setTimer(run, { delayMs, keepsProcessAlive: false });
    let cancel = after(settings.turnTimeoutMs, () => {
      onLate();
      cancel = after(1, () => this.#late.add(work)); // it may end by that
    });
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
    const refusal = this.#refuse(job, attempt.attempt);
    if (refusal !== undefined) return this.#giveUp(job, attempt, refusal);
    let stateDigest: string | undefined;
    try {
      return await this.#during(job, attempt, async (run) => {
        const { live, ports, settings } = this.#parts;
        const turn = live.nextTurn;
        try {
          const before = this.#progress.digestOf(live.mind);
          await this.#letAct(job, run).finally(() => run.end());
          const { mind, patches } = run.finish();
          run.throwIfDrifting(); // whatever the agent made of being told so
          // What cannot be saved is found here, where it fails its turn, and not where it is saved.
          const after = this.#progress.digestOf(mind);
          stateDigest = this.#progress.settle(job, run.report.findings, { before, after });
          const used = live.current?.work.used ?? [];
          return { turn, job, atMs: ports.now(), status: 'done', patches, ...(used.length > 0 && { used }) };
        } catch (error) {
          if (this.#isStopping) throw this.#tellLate(job, run, error);
          // What made it drift is dealt with, and counted, as drift.
          const isFinal = !run.report.isDrifting && live.failuresOf(job) + 1 >= settings.maxFailures;
          run.report.fail(error, { isFinal, isAborted: run.signal.aborted });
          return this.#fail(job, errorText(error), isFinal);
        }
      });
    } finally {
      await this.#parts.live.watch.assess({ kind: 'cycle', ...(stateDigest !== undefined && { stateDigest }) });
    }
  }

  /** A turn that was aborted because the loop stops is taken again; that it failed otherwise would not be known. */
  #tellLate(job: Job, { signal }: TurnRun, error: unknown): unknown {
    const told = errorText(error);
    if (error !== signal.reason && told.name !== 'AbortError')
      this.#parts.tell({ kind: 'turn', job, status: 'failed', error: told });
    return error;
  }

  /** A job that is not tried. What an attempt was taking back when it died is taken back first, unless it died of that. */
  async #giveUp(job: Job, attempt: StepAttempt, refusal: ErrorText): Promise<TurnOutcome> {
    const { live, settings } = this.#parts;
    await live.current?.work.recall();
    if (this.#openRollbacks.length > 0)
      await this.#during(job, attempt, (run) => run.operations.finishRollbacks(settings.maxFailures)).catch((error) => {
        if (this.#isStopping) throw error; // otherwise it is told as not finished
      });
    return this.#fail(job, refusal, true);
  }

  get #openRollbacks(): readonly string[] {
    const { live } = this.#parts;
    const agent = live.open();
    return openRollbacks(live.current?.work.made ?? [], (tool) => toolOf(agent, tool)).map(({ name }) => name);
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
    return job.kind === 'work' ? undefined : this.#parts.live.mailbox.findPending(job.messageId);
  }

  async #during<Result>(job: Job, { attempt }: StepAttempt, act: (run: TurnRun) => Promise<Result>): Promise<Result> {
    const { live } = this.#parts;
    const { work } = live.start(job);
    live.isActing = true;
    this.#progress.beginTurn(job, live.mind);
    const run = new TurnRun({
      live,
      work,
      attempt: work.attempt + attempt - 1,
      codec: this.#codec,
      log: this.#parts.operations,
      progress: this.#progress,
      isStopping: () => this.#isStopping,
    });
    this.#running = run;
    const onLate = () => run.abort(new DOMException('The turn took too long.', 'TimeoutError'));
    try {
      return await this.inTime(() => act(run), onLate);
    } finally {
      run.close();
      this.#progress.endTurn();
      this.#running = undefined;
    }
  }

  async #letAct(job: Job, run: TurnRun): Promise<void> {
    const { live } = this.#parts;
    const agent = live.open();
    live.watch.tellGoals(live.mind.context.goals);
    if (job.kind === 'work') return agent.work?.(run);
    const message = this.#messageOf(job);
    if (message === undefined) return;
    // The turn is not to blame for what others say.
    const said = { role: 'user', agent: message.from ?? 'user', text: textOf(message.body) };
    live.watch.observe({ job: this.#progress.jobOf(true), kind: 'message', ...said });
    const { digest: _, ...seen } = message;
    // A copy where freezing does not protect it: nothing that is done to it may change the mailbox.
    await agent.handle(copyOf(this.#codec, seen), run);
  }
}

/** What is left half taken back is said where the message is given up. */
function withRollbacks({ name, message }: ErrorText, open: readonly string[]): ErrorText {
  const rest = 'is not finished: resume({ retry }) with the id of the message goes on with it.';
  return { name, message: `${message} The rollback of ${open.map((each) => `"${each}"`).join(', ')} ${rest}` };
}
