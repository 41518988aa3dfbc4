import type { ChunkContent } from '../tree/chunk.ts';
import { ClassCodecs } from '../value/class-codec.ts';
import type { ValueLimits } from '../value/format.ts';
import { asPair } from '../value/grammar.ts';
import { Decoder, type FindChunk } from './decode.ts';
import { DecodedParts } from './decoded-parts.ts';
import type { NodePlace, PartPlace, Parts } from './parts.ts';
import type { ReadBudget } from './read-budget.ts';

/** Checks that states can be read, by reading them: whatever loading one refuses is refused. Instances are left to their codecs. */
export class StateCheck {
  readonly #parts = new CheckedParts();
  readonly #codecs = new ClassCodecs([], 'keep');
  readonly #limits: ValueLimits;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Throws what loading this state would throw. What it returns is to look at only: parts of it are used again. */
  read(root: ChunkContent, find: FindChunk): { readonly value: unknown; readonly sizeBytes: number } {
    this.#parts.turn();
    const options = { codecs: this.#codecs, limits: this.#limits, parts: this.#parts, isStrict: true };
    const decoder = new Decoder(find, options);
    return { value: decoder.decode(root), sizeBytes: decoder.budget.totals.bytes };
  }
}

/** The parts of one state and of the one before. Nothing of it may be handed out. */
class CheckedParts implements Parts {
  readonly #decoded = new DecodedParts();

  /** Another state begins. */
  turn(): void {
    this.#decoded.turn();
  }

  value({ digest, depth }: PartPlace, budget: ReadBudget, decode: () => unknown): unknown {
    return anew(this.#decoded.take({ digest, as: 'value', depth }, budget, decode));
  }

  items({ digest, kind, height, depth }: NodePlace, budget: ReadBudget, decode: () => unknown[]): unknown[] {
    const items = this.#decoded.take({ digest, as: `${kind} ${height}`, depth }, budget, decode);
    if (kind === 'Set') return items.map(anew);
    return kind === 'Map' ? items.map((pair) => [anew(asPair(pair)[0]), asPair(pair)[1]]) : items;
  }
}

/** The same again: two objects of the same content are two elements of a set. */
function anew<Value>(value: Value): Value {
  return typeof value === 'object' && value !== null ? new Proxy(value, {}) : value;
}
