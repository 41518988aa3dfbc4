import { randomUUID } from 'node:crypto';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { digestInput, sortedForm } from '../../manager/effect/input-digest.ts';
import type { EarlierAttempt, StepAttempt } from '../../manager/effect/step.ts';

/** What kind of outside call an effect is. */
export type EffectKind = 'model' | 'tool' | 'code' | 'human' | 'memory';

/** An outside call: who is called, and with what. The input's digest decides whether a recording fits. */
export type EffectCall = {
  readonly kind: EffectKind;
  readonly name: string;
  readonly input: unknown;
  readonly signal?: AbortSignal | undefined;
  /** @internal */
  readonly recall?: (() => EarlierAttempt | undefined) | undefined;
};

/** What a call asks for: a model names its calls of tools anew each time, and the name does not count. */
export function askedOf({ kind, input }: EffectCall): unknown {
  return kind === 'tool' ? (input as { readonly input: unknown }).input : input;
}

const codec = new StateCodec();

/** Makes outside calls. Everything a runtime does to the world goes through here. */
export interface Effects {
  run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result>;
}

/** Makes calls without recording them, for agents that are used without a session. */
export class UnrecordedEffects implements Effects {
  readonly #key: string;
  readonly #counts = new Map<string, number>();

  /**
   * Attempts at one thing have one key. Tools and code are given keys made of it, of what is asked for, and of which of equal calls it
   * is; models of it and of their order. Default: a new one.
   */
  constructor(key = `unrecorded-${randomUUID()}`) {
    this.#key = key;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    call.signal?.throwIfAborted();
    const isActing = call.kind === 'tool' || call.kind === 'code';
    const asked = isActing ? `-${sortedForm(digestInput(codec, askedOf(call))).slice(0, 16)}` : '';
    const place = `${this.#key}-${call.kind}-${call.name}${asked}`;
    const nth = (this.#counts.get(place) ?? 0) + 1;
    this.#counts.set(place, nth);
    return perform({ attempt: 1, idempotencyKey: `${place}-${nth}`, signal: call.signal });
  }
}
