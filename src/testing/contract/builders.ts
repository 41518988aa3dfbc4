import { type CheckpointHeader, digestCheckpoint, type Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, createCheckpointIds, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import type {
  CheckpointRow,
  CheckpointRowWithRoot,
  Commit,
  Deletion,
  EffectRow,
  NewCheckpoint,
  RefChange,
} from '../../storage/contract.ts';
import type { IndexedRow } from '../../storage/query.ts';
import { createRandom, type Random } from './random.ts';

const EPOCH_MS = 1_700_000_000_000;

/** What a test says about a checkpoint; the rest is filled in. */
export type CheckpointParts = Partial<
  Omit<CheckpointHeader, 'sessionId' | 'stateDigest' | 'stateBytes' | 'parentId'>
> & {
  readonly sessionId?: string;
  readonly parent?: NewCheckpoint;
  readonly root?: ChunkContent;
};

/** What a test says about an effect; the rest is filled in. */
type EffectParts = {
  readonly sessionId?: string;
  readonly branch?: string;
  readonly ordinal: number;
  readonly body?: string;
  readonly result?: ChunkContent;
};

/**
 * Makes valid rows, chunks and effects. Two of them with the same seed make the same things in the same order, so that a
 * failing test fails again.
 */
export class Builders {
  readonly random: Random;
  readonly #nextId: (after?: CheckpointId) => CheckpointId;
  #counter = 0;

  constructor(seed = 1) {
    this.random = createRandom(seed);
    this.#nextId = createCheckpointIds({
      now: () => EPOCH_MS + this.#counter++,
      randomBytes: (sizeBytes) => Uint8Array.from({ length: sizeBytes }, () => this.random.below(256)),
    });
  }

  id(after?: CheckpointId): CheckpointId {
    return this.#nextId(after);
  }

  /** A chunk that no other call makes, unless the text is given. */
  chunk(refs: readonly Digest[] = [], text = `{"n":${this.#counter++}}`): Chunk {
    return createChunk({ text, refs });
  }

  checkpoint({ root, parent, sessionId = 's-1', branch = 'main', ...parts }: CheckpointParts = {}): NewCheckpoint {
    const content = root ?? { text: `{"state":${this.#counter++}}`, refs: [] };
    const { timestampMs = EPOCH_MS + this.#counter++, ...said } = parts;
    const header: CheckpointHeader = {
      id: this.id(parent?.header.id),
      sessionId: session(sessionId),
      branch,
      ...(parent === undefined ? {} : { parentId: parent.header.id, parentDigest: parent.digest }),
      sequence: (parent?.header.sequence ?? 0) + 1,
      type: 'routine',
      ...said,
      timestampMs,
      stateDigest: createChunk(content).digest,
      stateBytes: content.text.length,
    };
    const body = JSON.stringify(header);
    return { header, body, digest: digestCheckpoint(body), root: content };
  }

  effect({ sessionId = 's-1', branch = 'main', ordinal, ...parts }: EffectParts): EffectRow {
    const body = parts.body ?? JSON.stringify({ ordinal, n: this.#counter++ });
    const place = { sessionId: session(sessionId), branch, ordinal, body, digest: digestText(body) };
    return parts.result === undefined ? place : { ...place, result: parts.result };
  }
}

/** A session id, checked as the manager checks it. */
export const session = (text: string): SessionId => parseSessionId(text);

/** What a commit brings besides its checkpoint. `from`: it moves the branch `main`, which is expected there. */
export type CommitParts = Omit<Commit, 'sessionId' | 'checkpoint'> & { readonly from?: string | null };

/** A commit of one checkpoint into its own session. */
export function commitOf(checkpoint: NewCheckpoint, { from, ...rest }: CommitParts = {}): Commit {
  const refs = from === undefined ? {} : { refs: [moveBranch('main', checkpoint, from)] };
  return { sessionId: checkpoint.header.sessionId, checkpoint, ...refs, ...rest };
}

/** A root or text with references to these chunks. */
export function contentOf(...chunks: readonly Chunk[]): ChunkContent {
  return { text: JSON.stringify(chunks.map(() => ({ $: 0 }))), refs: chunks.map((chunk) => chunk.digest) };
}

/** Moves a branch to a checkpoint. `expect` as in RefChange. */
export function moveBranch(name: string, target: NewCheckpoint, expect?: string | null): RefChange {
  const change = { kind: 'branch', name, target: target.header.id } as const;
  return expect === undefined ? change : { ...change, expect };
}

/** The row that a listing must give for a live checkpoint. */
export function rowOf({ header, digest, body }: NewCheckpoint): CheckpointRow {
  return { id: header.id, sessionId: header.sessionId, digest, body, isDeleted: false };
}

/** The row that reading a live checkpoint must give. */
export const rowWithRootOf = (checkpoint: NewCheckpoint): CheckpointRowWithRoot => ({
  ...rowOf(checkpoint),
  root: checkpoint.root,
});

/** What turns a checkpoint into a tombstone. */
export function deletionOf({ header }: NewCheckpoint): Deletion {
  const { id, sessionId, branch, parentId, sequence, timestampMs, stateDigest } = header;
  const lineage = parentId === undefined ? {} : { parentId };
  const tombstone: Tombstone = {
    id,
    sessionId,
    branch,
    ...lineage,
    sequence,
    timestampMs,
    stateDigest,
    deletedAtMs: EPOCH_MS,
    reason: 'retention',
  };
  return { id, body: JSON.stringify(tombstone) };
}

/** The row that a listing must give for a deleted checkpoint. */
export function tombstoneRowOf(checkpoint: NewCheckpoint): CheckpointRow {
  return { ...rowOf(checkpoint), body: deletionOf(checkpoint).body, isDeleted: true };
}

/** The row as the reference implementation of queries takes it. */
export const indexedRowOf = (row: CheckpointRow): IndexedRow => ({
  ...row,
  header: JSON.parse(row.body) as CheckpointHeader,
});
