import type { ChunkContent } from '../tree/chunk.ts';
import { ClassCodecs } from '../value/class-codec.ts';
import type { ValueLimits } from '../value/format.ts';
import { asPair } from '../value/grammar.ts';
import { Decoder, type FindChunk } from './decode.ts';
import type { NodePlace, PartPlace, Parts } from './parts.ts';
import type { ReadBudget, Totals } from './read-budget.ts';

/** Checks that states can be read, by reading them: whatever loading one refuses is refused. Instances are left to their codecs. */
export class StateCheck {
  readonly #parts = new DecodedParts();
  readonly #codecs = new ClassCodecs([], 'keep');
  readonly #limits: ValueLimits;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Throws what loading this state would throw. What it returns is to look at only: parts of it are used again. */
  read(root: ChunkContent, find: FindChunk): unknown {
    this.#parts.turn();
    const options = { codecs: this.#codecs, limits: this.#limits, parts: this.#parts, isStrict: true };
    return new Decoder(find, options).decode(root);
  }
}

/** What was decoded from a chunk: how much it is, and in how many containers it was found to be not too deep. */
type Part = Totals & { readonly value: unknown; readonly depth: number };

/**
 * Parts of states that were decoded, so that what many states share, or one holds many times, is read once. Keeps those of two states:
 * the one being read and the one before. Nothing of it may be handed out.
 */
class DecodedParts implements Parts {
  #now = new Map<string, Part>();
  #before = new Map<string, Part>();

  /** Another state begins. */
  turn(): void {
    [this.#before, this.#now] = [this.#now, new Map()];
  }

  value({ digest, depth }: PartPlace, budget: ReadBudget, decode: () => unknown): unknown {
    return anew(this.#take({ key: digest, depth }, budget, decode));
  }

  items({ digest, kind, height, depth }: NodePlace, budget: ReadBudget, decode: () => unknown[]): unknown[] {
    const items = this.#take({ key: `${kind} ${height} ${digest}`, depth }, budget, decode);
    if (kind === 'Set') return items.map(anew);
    return kind === 'Map' ? items.map((pair) => [anew(asPair(pair)[0]), asPair(pair)[1]]) : items;
  }

  /** A part as it was decoded, counted again; decodes it if it was not, or not as deep. The key says what it was decoded as. */
  #take<Value>({ key, depth }: { key: string; depth: number }, budget: ReadBudget, decode: () => Value): Value {
    const known = this.#now.get(key) ?? this.#before.get(key);
    if (known !== undefined && depth <= known.depth) {
      this.#now.set(key, known);
      budget.countAll(known);
      return known.value as Value;
    }
    const from = budget.totals;
    const value = decode();
    const to = budget.totals;
    this.#now.set(key, { value, depth, nodes: to.nodes - from.nodes, bytes: to.bytes - from.bytes });
    return value;
  }
}

/** The same again: two objects of the same content are two elements of a set. */
function anew<Value>(value: Value): Value {
  return typeof value === 'object' && value !== null ? new Proxy(value, {}) : value;
}
