import type { PathStep } from '../path.ts';
import type { Change } from './change.ts';
import type { ChunkSource, Steps } from './chunk-source.ts';
import { type Linked, Ref } from './linked.ts';
import { type DecodeContent, toValue, unlink } from './unlink.ts';

/** A value that is replaced as a whole. */
export type WholeDelta = { readonly before: Linked; readonly after: Linked };

/** What changes inside a container, in the order in which it is done. */
export type InnerDelta = {
  readonly removes: readonly (readonly [PathStep, Linked])[];
  readonly moves: readonly (readonly [from: PathStep, to: PathStep, Linked])[];
  readonly adds: readonly (readonly [PathStep, Linked])[];
  readonly nested: readonly (readonly [PathStep, Delta])[];
};

/** How one value became another, not yet decoded. Every chunk that decoding needs is loaded. */
export type Delta = WholeDelta | InnerDelta;

/** Compares two values; answers undefined if they are the same. */
export type Compare = (before: Linked, after: Linked) => Steps<Delta | undefined>;

/** What the comparison of containers needs. */
export type Comparison = { readonly chunks: ChunkSource; readonly compare: Compare };

/** Loads what decoding these values needs. */
export function openValues(chunks: ChunkSource, values: readonly Linked[]): Steps<void> {
  return chunks.openAll(values.flatMap((value) => (value instanceof Ref ? [value.digest] : unlink(value).refs)));
}

/** The delta, or undefined if it holds nothing. */
export function innerDelta(delta: InnerDelta): InnerDelta | undefined {
  const { removes, moves, adds, nested } = delta;
  return removes.length + moves.length + adds.length + nested.length === 0 ? undefined : delta;
}

/** Lists the changes of a delta with their whole paths and decoded values. */
export function listChanges(delta: Delta, decode: DecodeContent): Change[] {
  const changes: Change[] = [];
  const visit = (path: readonly PathStep[], part: Delta): void => {
    if ('before' in part) {
      changes.push({ op: 'replace', path, oldValue: toValue(part.before, decode), value: toValue(part.after, decode) });
      return;
    }
    for (const [step, value] of part.removes)
      changes.push({ op: 'remove', path: [...path, step], oldValue: toValue(value, decode) });
    for (const [from, to, value] of part.moves)
      changes.push({ op: 'move', from: [...path, from], path: [...path, to], value: toValue(value, decode) });
    for (const [step, value] of part.adds)
      changes.push({ op: 'add', path: [...path, step], value: toValue(value, decode) });
    for (const [step, inner] of part.nested) visit([...path, step], inner);
  };
  visit([], delta);
  return changes;
}
