import { randomUUID } from 'node:crypto';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';

/** What kind of outside call an effect is. */
export type EffectKind = 'model' | 'tool' | 'code' | 'human' | 'memory';

/** An outside call: who is called, and with what. The input's digest decides whether a recording fits. */
export type EffectCall = {
  readonly kind: EffectKind;
  readonly name: string;
  readonly input: unknown;
  readonly signal?: AbortSignal | undefined;
};

/** Makes outside calls. Everything a runtime does to the world goes through here. */
export interface Effects {
  run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result>;
}

/** Makes calls without recording them, for agents that are used without a session. */
export class UnrecordedEffects implements Effects {
  readonly #key: string;
  #count = 0;

  /** Calls of one and the same attempt at something, however often it is made, are given one key. Default: a new one. */
  constructor(key = `unrecorded-${randomUUID()}`) {
    this.#key = key;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    call.signal?.throwIfAborted();
    const idempotencyKey = `${this.#key}-${call.kind}-${call.name}-${++this.#count}`;
    return perform({ attempt: 1, idempotencyKey, signal: call.signal });
  }
}
