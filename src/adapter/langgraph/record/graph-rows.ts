import { hasErrorCode } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { parseRow } from '../../../manager/engine/records.ts';
import type { StoredCheckpoint } from '../../../manager/engine/repository.ts';
import { checkRef } from '../../../storage/ref.ts';
import { deriveCheckpointId } from './checkpoint-id.ts';
import { findGraphHeader, type GraphHeader } from './graph-header.ts';

/** A checkpoint that LangGraph saved. */
export type GraphCheckpoint = { readonly checkpoint: Checkpoint; readonly graph: GraphHeader };

/** The same with the root of its state. */
export type StoredGraphCheckpoint = GraphCheckpoint & StoredCheckpoint;

/** Where others saved into the session last, this many rows are read at a time to find LangGraph's latest. */
const LATEST_PAGE = 50;

/** The mark that leads from LangGraph's id to ours where it cannot be derived. */
export function aliasOf(graphId: string): string {
  return `lg:${digestText(graphId)}`;
}

/** Finds LangGraph's checkpoints among those of a session. */
export class GraphRows {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** The checkpoint with LangGraph's id, in reads by key. */
  async find(sessionId: SessionId, graphId: string): Promise<StoredGraphCheckpoint | undefined> {
    const derived = deriveCheckpointId(sessionId, graphId);
    const [alias, row] = await Promise.all([
      this.#findAlias(sessionId, graphId),
      derived === undefined ? undefined : this.#open(derived, graphId),
    ]);
    return alias === undefined ? row : this.#open(alias, graphId);
  }

  async #findAlias(sessionId: SessionId, graphId: string): Promise<CheckpointId | undefined> {
    const [ref] = await this.#engine.storage.readRefs({ sessionId, kind: 'mark', name: aliasOf(graphId) });
    return ref === undefined ? undefined : (checkRef(ref).target as CheckpointId);
  }

  async #open(id: CheckpointId, graphId: string): Promise<StoredGraphCheckpoint | undefined> {
    const found = await this.open(id);
    return found?.graph.id === graphId ? found : undefined;
  }

  /** The checkpoint with our id; undefined if it is gone, or not LangGraph's. */
  async open(id: CheckpointId): Promise<StoredGraphCheckpoint | undefined> {
    try {
      const stored = await this.#engine.repository.open(id);
      const graph = findGraphHeader(stored.checkpoint);
      return graph === undefined ? undefined : { ...stored, graph };
    } catch (error) {
      if (hasErrorCode(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  /** LangGraph's latest checkpoint of a session. Ours are in the order of its ids, so that is the newest of them. */
  async latest(sessionId: SessionId): Promise<StoredGraphCheckpoint | undefined> {
    let after: CheckpointId | undefined;
    for (let limit = 1; ; limit = LATEST_PAGE) {
      const page = { sessionId, limit, ...(after !== undefined && { after }) };
      const rows = await this.#engine.storage.listCheckpoints(page);
      // Nearly always the newest is LangGraph's: opening it tells.
      const row = limit === 1 ? rows[0] : rows.find((found) => findGraphHeader(parseRow(found)) !== undefined);
      const found = row === undefined ? undefined : await this.open(row.id);
      if (found !== undefined) return found;
      after = rows.at(-1)?.id;
      if (rows.length < limit) return undefined;
    }
  }

  /** Whether something was put on top of a checkpoint. */
  async hasChild(sessionId: SessionId, graphId: string): Promise<boolean> {
    const found = await this.find(sessionId, graphId);
    return found !== undefined && !(await this.isHead(found.checkpoint));
  }

  /** Whether a checkpoint is the newest of its branch. */
  async isHead({ id, sessionId, branch }: Checkpoint): Promise<boolean> {
    const [ref] = await this.#engine.storage.readRefs({ sessionId, kind: 'branch', name: branch });
    return ref !== undefined && checkRef(ref).target === id;
  }
}
