import type { Digest } from '../tree/chunk.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import type { ReadBudget } from './read-budget.ts';

/** What is asked of decoded parts: the value of a chunk inside so many containers, or the elements of a node of a tree. */
export type PartPlace = { readonly digest: Digest; readonly depth: number; readonly codecs: ClassCodecs };
export type NodePlace = PartPlace & { readonly kind: string; readonly height: number };

/** Parts of states that need not be decoded, because they were before. */
export interface Parts {
  value(place: PartPlace, budget: ReadBudget, decode: () => unknown): unknown;
  items(place: NodePlace, budget: ReadBudget, decode: () => unknown[]): unknown[];
}
