import { hasErrorCode } from '../../core/errors.ts';
import { Breather } from '../../storage/breather.ts';
import { Alarm, LoopClocks } from './loop-clocks.ts';
import { type LoopParts, retryDelayMs } from './loop-options.ts';
import { Recovery } from './recovery.ts';
import type { Job } from './state/agent-state.ts';
import { errorText } from './state/error-text.ts';
import type { TurnOutcome } from './turn/live-agent.ts';
import { TurnTaker } from './turn-taker.ts';

/** Why a run ended. After `refresh` a new process is expected to go on. */
export type LoopEnding = 'stopped' | 'refresh';

/**
 * A loop over recorded steps: choose, take the turn, and again. After a crash it goes through the turns since the last
 * checkpoint without taking them, and takes up the one that was under way.
 */
export class TurnLoop {
  readonly recovery: Recovery;
  readonly turns: TurnTaker;
  readonly alarm: Alarm;
  /** Resolves when everything recorded has been gone through. */
  readonly awake: Promise<void>;
  readonly #parts: LoopParts;
  readonly #clocks: LoopClocks;
  /** Whether the agent is made, its first checkpoint stored, and the clocks run. */
  #isAwake = false;
  #ending: LoopEnding | undefined;
  #wakeUp: () => void = () => undefined;
  #endPause: () => void = () => undefined;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.recovery = new Recovery(parts);
    this.turns = new TurnTaker(parts);
    this.alarm = new Alarm(parts.ports);
    this.awake = new Promise((resolve) => {
      this.#wakeUp = resolve;
    });
    this.#clocks = new LoopClocks(parts, this.alarm, () => this.turns.isOverdue);
  }

  get ending(): LoopEnding | undefined {
    return this.#ending;
  }

  /** Lets no other turn begin. */
  end(ending: LoopEnding): void {
    this.#ending ??= ending;
    this.#clocks.stop();
    this.#endPause();
    this.alarm.stop();
  }

  /** Saves once more, after the end. What a storage that fails leaves undone is for the next run. */
  async saveLast(): Promise<void> {
    const { checkpoints, tell } = this.#parts;
    const id = await checkpoints.tryTake({ type: 'routine', trigger: 'stopped' });
    try {
      if (id !== undefined) await this.#clocks.tidy();
    } catch (error) {
      if (!hasErrorCode(error, 'STORAGE')) throw error;
      tell({ kind: 'storage_failed', error: errorText(error) });
    }
  }

  /** Lets the run end with what went wrong outside of it. */
  fail(error: unknown): void {
    this.#clocks.fail(error);
  }

  async run(): Promise<LoopEnding> {
    const breather = new Breather(); // turns of an agent that waits for nothing, on a storage that does not either
    while (this.#ending === undefined) {
      try {
        await breather.breathe();
        await this.#advance();
      } catch (error) {
        this.#bear(error);
      }
    }
    return this.#ending;
  }

  /** Does the next thing: rest, heal, refresh, take a turn, or wait for something to do. */
  async #advance(): Promise<void> {
    const { live } = this.#parts;
    this.#clocks.throwIfFailed();
    if (this.alarm.isResting) await this.alarm.wait();
    else if (live.isAwake && live.isDrifting)
      this.#rest(await this.turns.inTime(() => this.recovery.recoverFromDrift()));
    else if (this.#clocks.isRefreshDue) await this.#refresh();
    else {
      const job = live.current?.job ?? (await this.#chooseJob());
      if (job !== undefined) await this.#takeTurn(job);
      else if (!live.isDrifting) await this.alarm.wait();
    }
  }

  /** The choice is recorded, so that messages which arrive later do not change the order when it is gone through again. */
  async #chooseJob(): Promise<Job | undefined> {
    const { live, session } = this.#parts;
    if (this.#isAwake && live.nextJob() === null) return undefined;
    let isLive = false;
    let job: Job | null;
    do {
      job = await session.step(`turn ${live.nextTurn}: choose`, async () => {
        isLive = true;
        await this.#awaken();
        const next = live.nextJob();
        return next && live.start(next).job;
      });
    } while (job === null && !isLive);
    return job === null ? undefined : live.start(job).job;
  }

  async #takeTurn(job: Job): Promise<void> {
    const { live, session } = this.#parts;
    let isLive = false;
    const outcome = await session.step(`turn ${live.nextTurn}`, async (attempt) => {
      isLive = true;
      await this.#awaken();
      // Settled before it is recorded: a checkpoint taken in between has it, and nothing is settled twice.
      return live.settle(await this.turns.take(job, attempt));
    });
    live.settle(outcome);
    if (!isLive) return;
    this.#pauseWork();
    await this.#react(outcome);
  }

  /** Work that changes nothing goes on after a pause that doubles; a message is handled meanwhile, and ends the pause. */
  #pauseWork(): void {
    const { live, settings, ports } = this.#parts;
    const { idleTurns } = this.turns;
    this.#endPause();
    if (idleTurns === 0) return;
    live.isWorkPaused = true;
    const goOn = (): void => {
      live.isWorkPaused = false;
      this.alarm.ring();
    };
    const cancel = ports.setTimer(goOn, { delayMs: retryDelayMs(settings, idleTurns), keepsProcessAlive: true });
    this.#endPause = () => {
      cancel();
      live.isWorkPaused = false;
    };
  }

  async #react(outcome: TurnOutcome): Promise<void> {
    const { live, settings, tell, ports } = this.#parts;
    const { job, status } = outcome;
    tell({ kind: 'turn', job, status, ...(status === 'failed' && { error: outcome.error }) });
    if (status === 'done') return;
    const { error, isFinal } = outcome;
    if (!isFinal) this.#rest(ports.now() + retryDelayMs(settings, live.failuresOf(job)));
    if (!live.isDrifting) await this.#parts.checkpoints.takeAfterError('error', error);
    if (isFinal) await this.recovery.giveUp(job, error);
  }

  async #refresh(): Promise<void> {
    const ending = await this.turns.inTime(() => this.recovery.refresh());
    if (ending !== undefined) this.end(ending);
    this.#clocks.isRefreshDue = false;
  }

  /** Makes the agent, once everything that was recorded has been gone through, and starts the clocks. */
  async #awaken(): Promise<void> {
    const { live, session, checkpoints, events, tell, restore } = this.#parts;
    if (this.#isAwake) return;
    events.tellEarly();
    if (!live.isAwake) {
      const from = restore?.from ?? session.head?.id;
      const report = restore === undefined ? await live.renew() : await this.recovery.restoreByHand(restore);
      tell({ kind: 'started', turn: live.loop.turn, report });
      if (from !== undefined) await checkpoints.tellRestored(from, report);
    }
    if (session.head === undefined) await checkpoints.take({ type: 'routine', trigger: 'started' });
    this.#isAwake = true;
    live.watch.tellGoals(live.mind.context.goals);
    this.#clocks.start();
    this.#wakeUp();
  }

  #rest(untilMs: number): void {
    this.alarm.rest(untilMs - this.#parts.ports.now());
  }

  /** A storage that fails is waited for; nothing else is borne. */
  #bear(error: unknown): void {
    const { ports, settings, tell } = this.#parts;
    if (this.#ending !== undefined) return;
    if (!hasErrorCode(error, 'STORAGE')) throw error;
    tell({ kind: 'storage_failed', error: errorText(error) });
    this.#rest(ports.now() + settings.retryDelayMs);
  }
}
