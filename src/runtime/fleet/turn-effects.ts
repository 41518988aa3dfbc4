import { digestText } from '../../core/tree/chunk.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';
import type { DoneCall } from './fleet-state.ts';

/**
 * The outside calls of one move, remembered. A checkpoint in the middle of a turn holds them, since what a session recorded before a
 * checkpoint is not taken up again after it; so a turn that waited for a person, or failed, goes on without repeating a call.
 */
export class TurnEffects implements Effects {
  readonly #effects: Effects;
  readonly #done: DoneCall[] = [];
  #before: readonly DoneCall[];

  constructor(effects: Effects, before: readonly DoneCall[]) {
    this.#effects = effects;
    this.#before = before;
  }

  /** What was called so far, in order. */
  get done(): readonly DoneCall[] {
    return [...this.#done];
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { kind, name, input } = call;
    const digest = digestText(JSON.stringify([kind, name, input])).slice(0, 32);
    const known = this.#before[this.#done.length];
    const isSame = known?.digest === digest;
    if (!isSame) this.#before = []; // the turn takes another way from here on
    const result = isSame ? (known.result as Result) : await this.#effects.run(call, perform);
    this.#done.push({ kind, name, digest, result });
    return result;
  }
}
