import type { PathStep } from '../path.ts';
import type { Digest } from '../tree/chunk.ts';
import type { Change } from './change.ts';
import type { ChunkSource, Steps } from './chunk-source.ts';
import { collectRefs, type Linked } from './linked.ts';
import { type DecodeContent, toValue } from './unlink.ts';

/** A value that is replaced as a whole. */
type WholeDelta = { readonly before: Linked; readonly after: Linked };

/** What changes inside a container, in the order in which it is done. */
export type InnerDelta = {
  readonly removes: readonly (readonly [PathStep, Linked])[];
  readonly moves: readonly (readonly [from: PathStep, to: PathStep, Linked])[];
  readonly adds: readonly (readonly [PathStep, Linked])[];
  readonly nested: readonly (readonly [PathStep, Outcome])[];
};

/** How one value became another, not yet decoded. Every chunk that decoding needs is loaded. */
export type Delta = WholeDelta | InnerDelta;

/** What comparing two values gave: undefined while it is not done, and if they are the same. */
export type Outcome = { delta: Delta | undefined };

/** What the comparison of containers needs. */
export interface Comparison {
  readonly chunks: ChunkSource;
  /** Has two values compared, now or later. */
  compare(before: Linked, after: Linked): Outcome;
}

/** Loads what decoding these values needs. */
export function openValues(chunks: ChunkSource, values: readonly Linked[]): Steps<void> {
  const refs: Digest[] = [];
  for (const value of values) collectRefs(value, refs);
  return chunks.openAll(refs);
}

/** Lists the changes of an outcome with their whole paths and decoded values. */
export function listChanges(outcome: Outcome, decode: DecodeContent): Change[] {
  const changes: Change[] = [];
  const value = (linked: Linked) => toValue(linked, decode);
  const visit = (path: readonly PathStep[], { delta }: Outcome): void => {
    if (delta === undefined) return;
    if ('before' in delta) {
      changes.push({ op: 'replace', path, oldValue: value(delta.before), value: value(delta.after) });
      return;
    }
    const { removes, moves, adds, nested } = delta;
    for (const [step, old] of removes) changes.push({ op: 'remove', path: [...path, step], oldValue: value(old) });
    for (const [from, to, item] of moves)
      changes.push({ op: 'move', from: [...path, from], path: [...path, to], value: value(item) });
    for (const [step, added] of adds) changes.push({ op: 'add', path: [...path, step], value: value(added) });
    for (const [step, inner] of nested) visit([...path, step], inner);
  };
  visit([], outcome);
  return changes;
}
