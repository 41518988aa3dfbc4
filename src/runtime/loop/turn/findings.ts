import { createHash } from 'node:crypto';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';

/** One thing that was done in a turn, and what came of it. */
export type Finding = { readonly name: string; readonly input?: unknown; readonly outcome: unknown };

const DIGEST_BYTES = 32;

/**
 * What a turn has found out so far. Its agent may hold that without its state showing it, so two moments with different findings are
 * not the same. The same again is nothing new: whoever asks and hears the same for ever stays where it is.
 */
export class Findings {
  readonly #codec: StateCodec;
  readonly #known = new Set<string>();
  readonly #sum = Buffer.alloc(DIGEST_BYTES);

  constructor(codec: StateCodec) {
    this.#codec = codec;
  }

  /** Equal for equal sets of findings, in whatever order they were made. */
  get digest(): string {
    return this.#sum.toString('hex');
  }

  add({ name, input, outcome }: Finding): void {
    const digest = createHash('sha256')
      .update(`${name}\n${this.#textOf(input)}\n${this.#textOf(outcome)}`)
      .digest();
    const key = digest.toString('base64');
    if (this.#known.has(key)) return;
    this.#known.add(key);
    for (const [at, byte] of digest.entries()) this.#sum[at] = (this.#sum[at] ?? 0) ^ byte;
  }

  /** What has no digest is like nothing else. */
  #textOf(value: unknown): string {
    try {
      return this.#codec.encode(value).root.digest;
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      return `unlike anything: ${this.#known.size}`;
    }
  }
}
