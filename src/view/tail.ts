import { withoutUndefined } from '../core/defined.ts';
import { keepRecent } from '../core/keep-recent.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointId } from '../core/record/id.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';

/** So many checkpoints are read at a time. */
export const TAIL_PAGE = 100;
/** Of so many it is known that they were told. */
const MAX_REMEMBERED = 100_000;

/** The end of a storage. Ids follow lineage and not time, so those of others may come in between: what was told is remembered. */
export class Tail {
  readonly #manager: CheckpointManager;
  readonly #filter: { readonly sessionId?: string };
  readonly #told = new Map<CheckpointId, true>();
  #hasRead = false;

  constructor(manager: CheckpointManager, filter: { readonly sessionId?: string }) {
    this.#manager = manager;
    this.#filter = filter;
  }

  /** What was saved since the last call, oldest first; the first call returns the last page. */
  async readNew(): Promise<Checkpoint[]> {
    const isFirst = !this.#hasRead;
    this.#hasRead = true;
    const fresh: Checkpoint[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.#manager.list(this.#filter, withoutUndefined({ limit: TAIL_PAGE, cursor }));
      const unknown = page.checkpoints.filter(({ id }) => !this.#told.has(id));
      fresh.push(...unknown);
      cursor = unknown.length === page.checkpoints.length && !isFirst ? page.nextCursor : undefined;
    } while (cursor !== undefined);
    for (const { id } of fresh) this.note(id);
    return fresh.reverse();
  }

  /** Notes that a checkpoint is known; returns whether it was not. */
  note(id: CheckpointId): boolean {
    return keepRecent(this.#told, [id, true], MAX_REMEMBERED);
  }
}
