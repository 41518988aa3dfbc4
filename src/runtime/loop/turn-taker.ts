import { createHash } from 'node:crypto';
import type { EncodedState } from '../../core/codec/state-codec.ts';
import { hasErrorCode } from '../../core/errors.ts';
import { findSecretRef } from '../../core/secret/left-out.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import { type DriftEvent, textOf } from '../drift/step/drift-event.ts';
import type { LoopParts } from './loop-parts.ts';
import { type AgentMind, type Job, mindOf } from './state/agent-state.ts';
import { type ErrorText, errorText, secretLeftOut } from './state/error-text.ts';
import { findPending, type Message } from './state/mailbox.ts';
import { Findings } from './turn/findings.ts';
import type { TurnOutcome } from './turn/live-agent.ts';
import type { OperationLog } from './turn/operation.ts';
import { copyOf } from './turn/turn-draft.ts';
import { TurnRun } from './turn/turn-run.ts';

/** Ends of turns at a task that are remembered; work that goes round through more states is not noticed. */
const MAX_WORK_ENDS = 16;

/** Takes turns: lets the agent at a job, within its time, under the eyes of the drift watch. */
export class TurnTaker {
  readonly #parts: LoopParts;
  readonly #operations: OperationLog;
  #running: { readonly turn: TurnRun; isOverdue: boolean } | undefined;
  /** Other work that should have ended. */
  readonly #late = new Set<symbol>();
  #encoded: EncodedState | undefined;
  /** The goals that the watch was told, and how often it had begun anew then. */
  #told = { goals: '', beginnings: 0 };
  #giveUpAssessing: () => void = () => undefined;
  #isStopping = false;
  #findings: Findings;
  /** How the last turns at the task ended: the state, and what the turn found out. */
  readonly #workEnds = new Set<string>();
  /** Turns in a row that went at the task and changed nothing. */
  idleTurns = 0;

  constructor(parts: LoopParts, operations: OperationLog) {
    this.#parts = parts;
    this.#operations = operations;
    this.#findings = new Findings(this.#codec);
  }

  /** Whether something is under way that should have ended. */
  get isOverdue(): boolean {
    return this.#running?.isOverdue === true || this.#late.size > 0;
  }

  /** Does something that is no turn, and is overdue if it takes longer than one may. */
  async inTime<Result>(work: () => Promise<Result>): Promise<Result> {
    const id = Symbol('work');
    const cancel = this.#after(this.#parts.settings.turnTimeoutMs, () => this.#late.add(id));
    try {
      return await work();
    } finally {
      cancel();
      this.#late.delete(id);
    }
  }

  /** Ends the turn under way, as far as the agent lets it be ended; it is taken up again after the restart. */
  stop(): void {
    this.#isStopping = true;
    this.#running?.turn.abort(new DOMException('The loop stops.', 'AbortError'));
    this.#giveUpAssessing();
  }

  /** One attempt at a job. Rejects only if the loop stops: then nothing is known of how the turn would have ended. */
  async take(job: Job, attempt: StepAttempt): Promise<TurnOutcome> {
    const { live, ports, settings } = this.#parts;
    const turn = live.nextTurn;
    const refusal = this.#refuse(job, attempt.attempt);
    if (refusal !== undefined) return this.#fail(job, refusal, true);
    const run = this.#begin(job, attempt);
    const cancel = this.#limit(run);
    let stateDigest: string | undefined;
    try {
      await this.#letAct(job, run);
      const { mind, patches } = run.finish();
      // What cannot be saved is found here, where it fails its turn, and not where it is saved.
      stateDigest = this.#endDigest(job, mind);
      return { turn, job, atMs: ports.now(), status: 'done', patches };
    } catch (error) {
      if (this.#isStopping) throw error;
      // What made it drift is dealt with, and counted, as drift.
      const isFinal = !run.isDrifting && live.failuresOf(job) + 1 >= settings.maxFailures;
      run.fail(error, isFinal);
      return this.#fail(job, errorText(error), isFinal);
    } finally {
      cancel();
      this.#running = undefined;
      await this.#assess(stateDigest);
    }
  }

  /** What was done for a message that is given up goes with it: a person may have it taken up again. */
  #fail(job: Job, error: ErrorText, isFinal: boolean): TurnOutcome {
    const { live, ports } = this.#parts;
    const end = { turn: live.nextTurn, job, atMs: ports.now(), status: 'failed', error, isFinal } as const;
    const work = live.current?.work.record;
    return isFinal && work !== undefined && work.done.length > 0 ? { ...end, work } : end;
  }

  /** A turn at the task that ends as an earlier one did got nowhere; one that handles a message may leave everything as it is. */
  #endDigest(job: Job, mind: AgentMind): string | undefined {
    const digest = `${this.#digestOf(mind)} ${this.#findings.digest}`;
    const isIdle = job.kind === 'work' && this.#workEnds.has(digest);
    this.idleTurns = isIdle ? this.idleTurns + 1 : 0;
    if (job.kind === 'message' || this.#workEnds.size === MAX_WORK_ENDS) this.#workEnds.clear();
    if (job.kind === 'message') return undefined;
    this.#workEnds.add(digest);
    return digest;
  }

  /** Why a job is not tried: its message is gone or lost a secret, it killed its process, or may not be tried twice. */
  #refuse(job: Job, attempt: number): ErrorText | undefined {
    const message = job.kind === 'message' ? this.#messageOf(job) : undefined;
    if (job.kind === 'message' && message === undefined)
      return { name: 'NotFoundError', message: `Message "${job.messageId}" is not in the mailbox.` };
    return refuseWithoutSecret(message) ?? this.#refuseAgain(job, attempt);
  }

  #refuseAgain(job: Job, attempt: number): ErrorText | undefined {
    const { live, settings } = this.#parts;
    const message = job.kind === 'message' ? this.#messageOf(job) : undefined;
    const isOnce = message?.delivery === 'at-most-once';
    const attempts = attempt + live.failuresOf(job);
    if (attempt === 1 || (!isOnce && attempts <= settings.maxFailures)) return undefined;
    return { name: 'Interrupted', message: `The process ended ${attempt - 1} times while this was done.` };
  }

  #messageOf({ messageId }: Job & { kind: 'message' }) {
    return findPending(this.#parts.live.state.mailbox, messageId);
  }

  #begin(job: Job, attempt: StepAttempt): TurnRun {
    const { live } = this.#parts;
    const codec = this.#codec;
    const findings = new Findings(codec);
    this.#findings = findings;
    const digest = () => this.#stateDigest(job, turn.look(), findings);
    const { work, results = new Map() } = live.start(job);
    live.isActing = true;
    const turn: TurnRun = new TurnRun({
      work,
      attempt: work.attempt + attempt.attempt - 1,
      codec,
      agent: live.open(),
      mind: mindOf(live.state),
      formerly: { name: `turn ${live.nextTurn}`, results },
      findings,
      operations: this.#operations,
      observe: (event) => this.#observe({ ...event, ...(event.kind === 'call' && digest()) }),
      isStopping: () => this.#isStopping,
      onProblem: live.onProblem,
    });
    this.#running = { turn, isOverdue: false };
    return turn;
  }

  /** Ends a turn when its time is up, by timers: the clock may be set meanwhile. One that goes on after that is overdue. */
  #limit(turn: TurnRun): () => void {
    let cancel = this.#after(this.#parts.settings.turnTimeoutMs, () => {
      turn.abort(new DOMException('The turn took too long.', 'TimeoutError'));
      cancel = this.#after(1, () => {
        if (this.#running?.turn === turn) this.#running.isOverdue = true;
      });
    });
    return () => cancel();
  }

  #after(delayMs: number, run: () => void, keepsProcessAlive = false): () => void {
    return this.#parts.ports.setTimer(run, { delayMs, keepsProcessAlive });
  }

  async #letAct(job: Job, turn: TurnRun): Promise<void> {
    const agent = this.#parts.live.open();
    this.stateGoals();
    if (job.kind === 'work') return agent.work?.(turn);
    const message = this.#messageOf(job);
    if (message === undefined) return;
    turn.observe({ kind: 'message', role: 'user', agent: message.from ?? 'user', text: textOf(message.body) });
    // A copy where freezing does not protect it: nothing that is done to it may change the mailbox.
    await agent.handle(copyOf(this.#codec, message), turn);
  }

  #observe(event: DriftEvent): boolean {
    const { live, watch, identity } = this.#parts;
    if (watch !== undefined) live.reading = watch.observe({ agent: identity.agentId, ...event });
    return live.reading.status === 'drifting';
  }

  /** Lets the watch know what the agent is there for, unless it knows. */
  stateGoals(): void {
    const { live, watch } = this.#parts;
    const goals = live.state.context.goals.join(' ');
    const beginnings = live.watchBeginnings;
    if (goals === this.#told.goals && beginnings === this.#told.beginnings) return;
    this.#told = { goals, beginnings };
    if (goals !== '') watch?.observe({ kind: 'goal', text: goals });
  }

  /** One that takes longer than a turn may is not waited for: what was last observed holds. */
  async #assess(stateDigest: string | undefined): Promise<void> {
    const { live, watch, identity, settings, tell } = this.#parts;
    if (watch === undefined) return;
    const givenUp = new Promise<undefined>((resolve) => {
      this.#giveUpAssessing = () => resolve(undefined);
    });
    const tellLate = (): void => {
      const message = `assess: it took longer than ${settings.turnTimeoutMs} ms.`;
      tell({ kind: 'watch_failed', error: { name: 'TimeoutError', message } });
      this.#giveUpAssessing();
    };
    const cancel = this.#after(settings.turnTimeoutMs, tellLate, true);
    try {
      const event = { kind: 'cycle', agent: identity.agentId, ...(stateDigest !== undefined && { stateDigest }) };
      const reading = await Promise.race([watch.assess(event), givenUp]);
      live.reading = reading ?? live.reading;
    } finally {
      cancel();
    }
  }

  /**
   * An equal call on an equal state is a loop for certain. So everything belongs to it that the agent may go by: the message it
   * handles, and what it found out in this turn, which it may hold without its state showing it.
   */
  #stateDigest(job: Job, mind: AgentMind, findings: Findings): { readonly stateDigest?: string } {
    const at = job.kind === 'message' ? `message ${job.messageId}` : 'work';
    try {
      const whole = `${this.#digestOf(mind)}\n${findings.digest}\n${at}`;
      return { stateDigest: createHash('sha256').update(whole).digest('hex') };
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

function refuseWithoutSecret(message: Message | undefined): ErrorText | undefined {
  const place = findSecretRef(message?.body);
  if (message === undefined || place === undefined) return undefined;
  const { id } = message;
  return secretLeftOut(
    `The secret at ${place} of the body of message "${id}" is not stored, so it was not handled after the restart. Deliver it again with the same id and body and call resume({ retry: ["${id}"] }), or deliver it with a new id.`,
  );
}
