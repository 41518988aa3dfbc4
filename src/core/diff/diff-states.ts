import type { ChunkContent } from '../chunk.ts';
import type { FindChunk } from '../decode.ts';
import type { StateDiff } from './change.ts';
import { ChunkSource, type LoadChunks, type Steps } from './chunk-source.ts';
import { type Comparison, type Delta, listChanges, openValues } from './delta.ts';
import { diffFields, type Fields } from './diff-fields.ts';
import { diffList } from './diff-list.ts';
import { kindOf, type Linked, linkChunk, Ref, type Tree } from './linked.ts';
import { isSameLinked } from './unlink.ts';

/** Two states by their root chunks, and how to get at what is below them. */
export type DiffInput = {
  readonly before: ChunkContent;
  readonly after: ChunkContent;
  /** Loads chunks, in the order asked for. Called once per level of what differs, with each digest at most once. */
  readonly load: LoadChunks;
  /** Decodes a value, as `StateCodec.decode` does. */
  readonly decode: (content: ChunkContent, find: FindChunk) => unknown;
};

/** Finds what changed between two states. Loads and decodes what differs, and nothing that both have at the same place. */
export async function diffStates({ before, after, load, decode }: DiffInput): Promise<StateDiff> {
  const chunks = new ChunkSource(load);
  const comparison: Comparison = { chunks, compare: (one, other) => compare(comparison, one, other) };
  const steps = comparison.compare(linkChunk(before), linkChunk(after));
  let step = steps.next();
  while (step.done !== true) {
    await chunks.fill();
    step = steps.next();
  }
  const delta = step.value;
  if (delta === undefined) return { changes: [] };
  const find: FindChunk = (digest) => chunks.find(digest);
  return { changes: listChanges(delta, (content) => decode(content, find)) };
}

function* compare(comparison: Comparison, before: Linked, after: Linked): Steps<Delta | undefined> {
  if (isSameRef(before, after)) return undefined;
  const { chunks } = comparison;
  yield* chunks.open([before, after]);
  const one = chunks.resolve(before);
  const other = chunks.resolve(after);
  const kind = kindOf(one);
  const delta = kind === kindOf(other) ? yield* compareKind(comparison, kind, [one, other]) : 'whole';
  if (delta !== 'whole') return delta;
  yield* openValues(chunks, [one, other]);
  return { before: one, after: other };
}

function isSameRef(before: Linked, after: Linked): boolean {
  return before instanceof Ref && after instanceof Ref && before.digest === after.digest;
}

function* compareKind(
  comparison: Comparison,
  kind: string,
  [before, after]: readonly [Linked, Linked],
): Steps<Delta | 'whole' | undefined> {
  switch (kind) {
    case 'Array':
      return yield* diffList(comparison, before as Tree | Linked[], after as Tree | Linked[]);
    case 'Map':
    case 'object':
    case 'bare':
      return yield* diffFields(comparison, before as Fields, after as Fields);
    default:
      return isSameLinked(before, after) ? undefined : 'whole';
  }
}
