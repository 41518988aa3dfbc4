import { hasErrorCode } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { deleteSession } from '../../manager/retention/forgetting.ts';
import { SessionOpener } from '../../manager/write/session-opener.ts';
import type { SessionWriter } from '../../manager/write/session-writer.ts';

/** A call of a model or a tool: found again by its name and what was asked. */
export type LoggedCall = { readonly name: string; readonly input: unknown };

/** One opener for each engine: it knows what is open. */
const openers = new WeakMap<Engine, SessionOpener>();

function openerOf(engine: Engine): SessionOpener {
  const opener = openers.get(engine) ?? new SessionOpener(engine);
  openers.set(engine, opener);
  return opener;
}

/**
 * The calls of runs, recorded in a session of their own. A call that ended is not made again by a run that begins anew after a crash
 * or an error. When a run's outcome is in the history, its calls are settled.
 */
export class CallLog {
  readonly #engine: Engine;
  readonly #sessionId: SessionId;
  #opening: Promise<SessionWriter> | undefined;
  #hasSteps = false;
  /** Nothing is left to settle: nothing is recorded here, or it is settled. */
  #isSettled = true;

  constructor(engine: Engine, sessionId: SessionId) {
    this.#engine = engine;
    this.#sessionId = sessionId;
  }

  /** Calls will be made here; a process that died may have left some. */
  expectCalls(): void {
    this.#isSettled = false;
  }

  /** A run begins: what an earlier one left unsettled can be found. */
  async begin(): Promise<void> {
    const before = this.#opening;
    if (before === undefined || !this.#hasSteps) return;
    this.#opening = undefined;
    this.#hasSteps = false;
    await (await before).close();
  }

  /** Makes a call, or returns what it returned in a run that died. */
  async step<Result>({ name, input }: LoggedCall, run: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const session = await this.#open();
    this.#hasSteps = true;
    this.#isSettled = false;
    return session.step(name, run, { input });
  }

  /** The outcome of a run is saved: the next one makes its calls itself. */
  async settle(): Promise<void> {
    if (this.#isSettled) return;
    const session = await this.#open();
    const { runs = 0 } = (session.state ?? {}) as { readonly runs?: number };
    try {
      await session.save({ runs: runs + 1 }, { type: 'auto', trigger: 'run_settled' });
      this.#isSettled = true;
    } catch (error) {
      // Another process runs the session too. The outcome is saved; what stays unsettled is found by nobody who asks for something else.
      if (!hasErrorCode(error, 'CONFLICT')) throw error;
      this.#opening = undefined;
    }
  }

  /** Deletes what was recorded. */
  async delete(): Promise<void> {
    await this.begin();
    await deleteSession(this.#engine, this.#sessionId);
  }

  #open(): Promise<SessionWriter> {
    this.#opening ??= openerOf(this.#engine).open(this.#sessionId, {});
    this.#opening.catch(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }
}
