import { current } from 'mutative';
import type { EncodedState } from '../../core/state-codec.ts';
import type { StepAttempt } from '../../manager/effect-log.ts';
import { partsOf } from '../../manager/manager-parts.ts';
import { type DriftEvent, textOf } from '../drift/drift-event.ts';
import { type AgentMind, type Job, mindOf } from './agent-state.ts';
import { type ErrorText, errorText } from './error-text.ts';
import type { TurnOutcome } from './live-agent.ts';
import type { LoopParts } from './loop-parts.ts';
import type { OperationLog } from './operation.ts';
import { TurnRun } from './turn-run.ts';

/** Takes turns: lets the agent at a job, within its time, under the eyes of the drift watch. */
export class TurnTaker {
  readonly #parts: LoopParts;
  readonly #operations: OperationLog;
  #running: { readonly turn: TurnRun; readonly untilMs: number } | undefined;
  #encoded: EncodedState | undefined;
  #isStopping = false;

  constructor(parts: LoopParts, operations: OperationLog) {
    this.#parts = parts;
    this.#operations = operations;
  }

  /** Whether a turn is under way that should have ended. */
  get isOverdue(): boolean {
    return this.#running !== undefined && this.#parts.ports.now() > this.#running.untilMs;
  }

  /** Ends the turn under way, as far as the agent lets it be ended; it is taken up again after the restart. */
  stop(): void {
    this.#isStopping = true;
    this.#running?.turn.abort(new DOMException('The loop stops.', 'AbortError'));
  }

  /** One attempt at a job. Rejects only if the loop stops: then nothing is known of how the turn would have ended. */
  async take(job: Job, attempt: StepAttempt): Promise<TurnOutcome> {
    const { live, ports, settings } = this.#parts;
    const turn = live.nextTurn;
    const refusal = this.#refuse(job, attempt.attempt);
    if (refusal !== undefined) return { turn, job, atMs: ports.now(), status: 'failed', error: refusal, isFinal: true };
    const run = this.#begin(job, attempt);
    const cancel = ports.setTimer(() => run.abort(new DOMException('The turn took too long.', 'TimeoutError')), {
      delayMs: settings.turnTimeoutMs,
      keepsProcessAlive: false,
    });
    try {
      await this.#letAct(job, run);
      const patches = run.finish();
      return { turn, job, atMs: ports.now(), status: 'done', patches };
    } catch (error) {
      if (this.#isStopping) throw error;
      run.observe({ kind: 'error', text: errorText(error).message });
      // What made it drift is dealt with, and counted, as drift.
      const isFinal = !run.isDrifting && live.failuresOf(job) + 1 >= settings.maxFailures;
      return { turn, job, atMs: ports.now(), status: 'failed', error: errorText(error), isFinal };
    } finally {
      cancel();
      this.#running = undefined;
      await this.#assess();
    }
  }

  /** Why a job that killed its process, or may not be tried twice, is not tried again. */
  #refuse(job: Job, attempt: number): ErrorText | undefined {
    const { live, settings } = this.#parts;
    const message = job.kind === 'message' ? this.#messageOf(job) : undefined;
    if (job.kind === 'message' && message === undefined)
      return { name: 'NotFoundError', message: `Message "${job.messageId}" is not in the mailbox.` };
    const isOnce = message?.delivery === 'at-most-once';
    const attempts = attempt + live.failuresOf(job);
    if (attempt === 1 || (!isOnce && attempts <= settings.maxFailures)) return undefined;
    return { name: 'Interrupted', message: `The process ended ${attempt - 1} times while this was done.` };
  }

  #messageOf({ messageId }: Job & { kind: 'message' }) {
    return this.#parts.live.state.mailbox.pending.find(({ id }) => id === messageId);
  }

  #begin(job: Job, attempt: StepAttempt): TurnRun {
    const { live, session, ports, settings } = this.#parts;
    live.begin(job);
    const turn: TurnRun = new TurnRun({
      name: `turn ${live.nextTurn}`,
      session,
      agent: live.open(),
      mind: mindOf(live.state),
      attempt,
      results: live.current?.results ?? new Map(),
      operations: this.#operations,
      observe: (event) => this.#observe({ ...event, ...this.#stateDigest(event, turn) }),
      isStopping: () => this.#isStopping,
    });
    this.#running = { turn, untilMs: ports.now() + settings.turnTimeoutMs };
    return turn;
  }

  async #letAct(job: Job, turn: TurnRun): Promise<void> {
    const agent = this.#parts.live.open();
    if (job.kind === 'work') return agent.work?.(turn);
    const message = this.#messageOf(job);
    if (message === undefined) return;
    turn.observe({ kind: 'message', role: 'user', agent: message.from ?? 'user', text: textOf(message.body) });
    await agent.handle(message, turn);
  }

  #observe(event: DriftEvent): boolean {
    const { live, watch, identity } = this.#parts;
    if (watch !== undefined) live.reading = watch.observe({ agent: identity.agentId, ...event });
    return live.reading.status === 'drifting';
  }

  /** Lets the watch know what the agent is there for. */
  stateGoals(): void {
    const { live, watch } = this.#parts;
    const { goals } = live.state.context;
    if (goals.length > 0) watch?.observe({ kind: 'goal', text: goals.join(' ') });
  }

  async #assess(): Promise<void> {
    const { live, watch, identity } = this.#parts;
    if (watch !== undefined) live.reading = await watch.assess({ kind: 'cycle', agent: identity.agentId });
  }

  /** An equal call on an equal state is a loop for certain. What did not change since the last call costs nothing. */
  #stateDigest({ kind }: DriftEvent, turn: TurnRun): { stateDigest?: string } {
    const { watch, manager } = this.#parts;
    if (kind !== 'call' || watch === undefined) return {};
    const mind: AgentMind = mindOf(current(turn.state) as AgentMind);
    this.#encoded = partsOf(manager).context.plainCodec.encode(mind, this.#encoded);
    return { stateDigest: this.#encoded.root.digest };
  }
}
