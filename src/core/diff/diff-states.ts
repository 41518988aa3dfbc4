import { toReadError } from '../codec/read-budget.ts';
import type { StateCodec } from '../codec/state-codec.ts';
import type { ChunkContent } from '../tree/chunk.ts';
import type { StateDiff } from './change.ts';
import { ChunkSource, type LoadChunks, type Steps } from './chunk-source.ts';
import { type Comparison, type InnerDelta, listChanges, type Outcome, openValues } from './delta.ts';
import { diffFields, type Fields } from './diff-fields.ts';
import { diffList } from './diff-list.ts';
import { isSameLinked, kindOf, type Linked, linkChunk, Ref, type Tree } from './linked.ts';

/** Two states by their root chunks, and how to get at what is below them. */
export type DiffInput = {
  readonly before: ChunkContent;
  readonly after: ChunkContent;
  /** Loads chunks, in the order asked for. Called once per level of what differs, with each digest at most once. */
  readonly load: LoadChunks;
  /** Decodes the values that differ, within its limits. */
  readonly codec: Pick<StateCodec, 'limits' | 'partDecoder'>;
};

/** Finds what changed between two states. Loads and decodes what differs, and nothing that both have at the same place. */
export async function diffStates({ before, after, load, codec }: DiffInput): Promise<StateDiff> {
  const chunks = new ChunkSource(load, 2 * codec.limits.maxNodes);
  try {
    const comparison = new StateComparison(chunks);
    const outcome = comparison.compare(linkChunk(before), linkChunk(after));
    await comparison.finish();
    return {
      changes: listChanges(
        outcome,
        codec.partDecoder((digest) => chunks.find(digest), 2),
      ),
    };
  } catch (error) {
    throw toReadError(error); // also of values that are nested deeper than calls can be
  }
}

/**
 * Compares pairs of values side by side, so that what they need is loaded together. Pairs inside pairs wait in the same
 * row: a state may be nested deeper than calls can be.
 */
class StateComparison implements Comparison {
  readonly chunks: ChunkSource;
  #tasks: Steps<void>[] = [];

  constructor(chunks: ChunkSource) {
    this.chunks = chunks;
  }

  compare(before: Linked, after: Linked): Outcome {
    const outcome: Outcome = { delta: undefined };
    if (!isSameRef(before, after)) this.#tasks.push(this.#run(before, after, outcome));
    return outcome;
  }

  async finish(): Promise<void> {
    while (this.#tasks.length > 0) {
      const waiting: Steps<void>[] = [];
      for (const task of this.#tasks) if (task.next().done !== true) waiting.push(task); // tasks may add tasks
      this.#tasks = waiting;
      await this.chunks.fill();
    }
  }

  *#run(before: Linked, after: Linked, outcome: Outcome): Steps<void> {
    const { chunks } = this;
    yield* chunks.open([before, after]);
    const one = chunks.resolve(before);
    const other = chunks.resolve(after);
    if (isSameLinked(one, other)) return;
    const kind = kindOf(one);
    const delta = kind === kindOf(other) ? yield* compareKind(this, kind, [one, other]) : 'whole';
    if (delta === 'whole') yield* openValues(chunks, [one, other]);
    outcome.delta = delta === 'whole' ? { before: one, after: other } : delta;
  }
}

function isSameRef(before: Linked, after: Linked): boolean {
  return before instanceof Ref && after instanceof Ref && before.digest === after.digest;
}

function* compareKind(
  comparison: Comparison,
  kind: string,
  [before, after]: readonly [Linked, Linked],
): Steps<InnerDelta | 'whole'> {
  switch (kind) {
    case 'Array':
      return yield* diffList(comparison, before as Tree | Linked[], after as Tree | Linked[]);
    case 'Map':
    case 'object':
    case 'bare':
      return yield* diffFields(comparison, before as Fields, after as Fields);
    default:
      return 'whole';
  }
}
