/** The plain data of an accumulator. */
export type AccumulatorState = { readonly nats: number; readonly onset: number | undefined };

/**
 * Sums evidence for one way of drifting (CUSUM): log-likelihood ratios in nats, never below zero, so that good behaviour
 * long ago does not excuse bad behaviour now, and capped, so that bad behaviour long ago can be made good.
 */
export class Accumulator {
  readonly #capNats: number;
  #nats = 0;
  #onset: number | undefined;

  constructor(capNats: number, state?: AccumulatorState) {
    this.#capNats = capNats;
    this.#nats = state?.nats ?? 0;
    this.#onset = state?.onset;
  }

  get nats(): number {
    return this.#nats;
  }

  /** The first event of the evidence that is still counted. */
  get onset(): number | undefined {
    return this.#onset;
  }

  add(nats: number, index: number): void {
    if (this.#nats === 0 && nats > 0) this.#onset = index;
    this.#nats = Math.min(this.#capNats, Math.max(0, this.#nats + nats));
    if (this.#nats === 0) this.#onset = undefined;
  }

  snapshot(): AccumulatorState {
    return { nats: this.#nats, onset: this.#onset };
  }
}
