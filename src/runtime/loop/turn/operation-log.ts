import { hasErrorCode } from '../../../core/errors.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { eachCheckpoint } from '../../../manager/branch/history.ts';
import { type ErrorText, errorText } from '../state/error-text.ts';
import type { AgentCheckpoints, CheckpointParts } from './agent-checkpoints.ts';
import type { UndoneCall } from './operation.ts';

/** Operations that did not succeed, of different names, whose checkpoints are kept; more than a person would look at. */
const MAX_OPERATIONS = 100;

/** No turn has this number. */
const OVER = -1;

/** Keeps account of guarded operations: their checkpoints, which of these retention may have, and events. */
export class OperationLog {
  readonly #parts: CheckpointParts;
  readonly #checkpoints: AgentCheckpoints;
  /**
   * Checkpoints of operations that are under way, failed, or were interrupted, oldest first, with the turn in which each began: while
   * that is under way, so may the operation be.
   */
  readonly #unfinished = new Map<CheckpointId, { readonly name: string; readonly turn: number }>();

  constructor(parts: CheckpointParts, checkpoints: AgentCheckpoints) {
    this.#parts = parts;
    this.#checkpoints = checkpoints;
  }

  /** Finds out what an earlier process left. */
  async open(): Promise<void> {
    const { manager, session } = this.#parts;
    const marks = await manager.engine.repository.readRefs({ sessionId: session.id, kind: 'mark' });
    const marked = new Set(marks.map(({ target }) => target));
    const filter = { sessionId: session.id, branch: session.branch, type: 'pre_operation' };
    for await (const { id, metadata } of eachCheckpoint(manager, filter, 'oldest'))
      if (!marked.has(id))
        this.#unfinished.set(id, { name: String(metadata?.operation), turn: Number(metadata?.turn ?? 0) + 1 });
  }

  async begin({ name, key }: { readonly name: string; readonly key: string }): Promise<CheckpointId> {
    const { session, live, tell } = this.#parts;
    const { nextTurn } = live;
    const id = await this.#checkpoints.take({
      type: 'pre_operation',
      trigger: 'guard',
      metadata: { operation: name },
      key: `${session.id} ${session.branch} turn ${nextTurn} ${key}`,
    });
    this.#unfinished.set(id, { name, turn: nextTurn });
    await this.#release([...this.#over(name).slice(0, -1), ...this.#over().slice(0, -MAX_OPERATIONS)]);
    tell({ kind: 'operation', name, status: 'begun' });
    return id;
  }

  /** What failed or was interrupted before under this name need not be kept any more, either. */
  async succeed(name: string, before: CheckpointId): Promise<void> {
    await this.#release([...this.#over(name), before]);
    this.#parts.tell({ kind: 'operation', name, status: 'done' });
  }

  /** A failed operation keeps its checkpoint until one of its name succeeds; those of earlier failures may go. */
  async fail(name: string, error: ErrorText, before: CheckpointId): Promise<void> {
    await this.#release(this.#over(name).filter((id) => id !== before));
    this.#unfinished.delete(before);
    this.#unfinished.set(before, { name, turn: OVER });
    this.#parts.tell({ kind: 'operation', name, status: 'failed' });
    await this.#checkpoints.takeAfterError('operation_failed', error);
  }

  rolledBack(name: string, undone: readonly UndoneCall[]): void {
    this.#parts.tell({ kind: 'operation', name, status: 'rolled_back', undone });
  }

  /** Checkpoints of operations, of one name or of all, that are not under way any more; oldest first. */
  #over(name?: string): CheckpointId[] {
    const { nextTurn } = this.#parts.live;
    const over = [...this.#unfinished].filter(([, begun]) => begun.turn !== nextTurn);
    return over.filter(([, begun]) => name === undefined || begun.name === name).map(([id]) => id);
  }

  /**
   * Lets retention have them. The operation ended, whatever becomes of its mark: what was deleted meanwhile needs none, and what the
   * storage did not take is tried again with the next operation of that name.
   */
  async #release(ids: readonly CheckpointId[]): Promise<void> {
    const { manager, tell } = this.#parts;
    for (const id of ids) {
      try {
        await manager.completeOperation(id);
        this.#unfinished.delete(id);
      } catch (error) {
        if (hasErrorCode(error, 'NOT_FOUND')) this.#unfinished.delete(id);
        else if (hasErrorCode(error, 'STORAGE')) tell({ kind: 'storage_failed', error: errorText(error) });
        else if (!hasErrorCode(error, 'CONFLICT')) throw error; // deleted in this moment: next time it is not found
      }
    }
  }
}
