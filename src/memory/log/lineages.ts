import { NotFoundError } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { isCheckpointId, type SessionId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type Engine, engineOf } from '../../manager/engine/engine.ts';
import { findCurrentBranch, type LineageEntry, readPath, toEntry } from '../../manager/engine/records.ts';
import type { Ref } from '../../storage/contract.ts';
import type { LineageSegment } from '../storage/memory-storage.ts';

/** Sorts after every checkpoint id: the end of a branch that goes on. */
export const OPEN_END = '~';

/** Lineages that are kept; the next head's is made from its parent's. */
const MAX_KNOWN = 512;

/** So many checkpoints are read one by one before whole pages are. */
const NEAR = 8;

/** Beyond this many sessions their names are read in one go instead of one by one. */
const MANY_SESSIONS = 8;

/** The lineage of a checkpoint, newest stretch first, with the checkpoint itself. */
type CheckpointLineage = { readonly checkpoint: Checkpoint; readonly segments: readonly LineageSegment[] };

/** Where sessions stand in a CheckpointManager. Only reads. */
export class Lineages {
  readonly #engine: Engine;
  readonly #known = new Map<string, readonly LineageSegment[]>();

  constructor(manager: CheckpointManager) {
    this.#engine = engineOf(manager);
  }

  /** The lineage of a checkpoint, by its id or a prefix of it. */
  async of(idOrPrefix: string): Promise<CheckpointLineage> {
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    return { checkpoint, segments: await this.#segmentsOf(checkpoint) };
  }

  /** Where a session stands. Its lineage goes on: also what was learned since its head belongs to it. */
  async ofSession(place: SessionPlace): Promise<Standing> {
    const refs = await this.#engine.repository.readRefs({ sessionId: place.id });
    const { branch = findCurrentBranch(refs) } = place;
    const stored = refs.find(({ kind, name }) => kind === 'branch' && name === branch)?.target;
    const isOpen = 'save' in place; // a Session, which may not have been saved yet, on this branch or at all
    if (stored === undefined && !isOpen) throw unknownPlace(place, refs);
    const headId = isOpen ? place.head?.id : (place.head?.id ?? stored);
    return { branch, headId, lineage: await this.#openBranch(branch, stored) };
  }

  /** The lineages of the current branches of these sessions; of a session that is gone, none. */
  async ofCurrent(sessionIds: readonly string[]): Promise<ReadonlyMap<string, readonly LineageSegment[]>> {
    const lineages = new Map<string, readonly LineageSegment[]>();
    for (const [sessionId, refs] of await this.#readRefs(sessionIds)) {
      const branch = findCurrentBranch(refs);
      const headId = refs.find(({ kind, name }) => kind === 'branch' && name === branch)?.target;
      lineages.set(sessionId, await this.#openBranch(branch, headId));
    }
    return lineages;
  }

  /** What became of a checkpoint. */
  async statusOf(id: string): Promise<{ readonly status: 'present' | 'deleted' | 'gone'; readonly reason?: string }> {
    if (!isCheckpointId(id)) return { status: 'gone' };
    const row = await this.#engine.storage.readCheckpoint(id);
    if (row === undefined) return { status: 'gone', reason: 'it was deleted long ago, or its session was' };
    if (!row.isDeleted) return { status: 'present' };
    return this.#engine.repository.open(id).then(
      () => ({ status: 'present' as const }),
      (error: Error) => ({ status: 'deleted' as const, reason: error.message }),
    );
  }

  async #readRefs(sessionIds: readonly string[]): Promise<Map<string, Ref[]>> {
    const { repository } = this.#engine;
    const refs =
      sessionIds.length > MANY_SESSIONS
        ? [...(await repository.readRefs({ kind: 'branch' })), ...(await repository.readRefs({ kind: 'current' }))]
        : (await Promise.all(sessionIds.map((sessionId) => repository.readRefs({ sessionId })))).flat();
    const wanted = new Set<string>(sessionIds);
    return groupBy<Ref, string>(
      refs.filter((ref) => wanted.has(ref.sessionId)),
      ({ sessionId }) => sessionId,
    );
  }

  async #openBranch(branch: string, headId: string | undefined): Promise<readonly LineageSegment[]> {
    if (headId === undefined) return [{ branch, base: '', to: OPEN_END }];
    const { checkpoint, segments } = await this.#ofHead(headId);
    const [last, ...rest] = segments;
    return last !== undefined && checkpoint.branch === branch
      ? [{ ...last, to: OPEN_END }, ...rest]
      : [{ branch, base: headId, to: OPEN_END }, ...segments];
  }

  async #ofHead(headId: string): Promise<{ checkpoint: { branch: string }; segments: readonly LineageSegment[] }> {
    const known = this.#known.get(headId);
    const branch = known?.[0]?.branch;
    return known === undefined || branch === undefined ? this.of(headId) : { checkpoint: { branch }, segments: known };
  }

  /** Walks back only as far as nobody has walked before: a step or two in a session that goes on. */
  async #segmentsOf(head: Checkpoint): Promise<readonly LineageSegment[]> {
    const known = this.#known.get(head.id);
    if (known !== undefined) return known;
    const steps = (await this.#walkNear(head)) ?? (await this.#walkFar(head));
    let segments = this.#known.get(steps.at(-1)?.parentId ?? '') ?? [];
    for (const step of steps.reverse()) segments = extend(segments, step);
    keepRecent(this.#known, [head.id, segments], MAX_KNOWN);
    return segments;
  }

  /** Reads checkpoint by checkpoint; undefined if that would take too long. */
  async #walkNear(head: Checkpoint): Promise<Step[] | undefined> {
    const steps = [toStep({ id: head.id, parentId: head.parentId, checkpoint: head })];
    for (let parentId = head.parentId; parentId !== undefined && !this.#known.has(parentId); ) {
      const row = steps.length > NEAR ? undefined : await this.#engine.storage.readCheckpoint(parentId);
      if (row === undefined) return undefined;
      const entry = toEntry(row);
      steps.push(toStep(entry));
      parentId = entry.parentId;
    }
    return steps;
  }

  async #walkFar(head: Checkpoint): Promise<Step[]> {
    const steps: Step[] = [];
    for await (const entry of readPath(this.#engine.storage, head)) {
      if (this.#known.has(entry.id)) break;
      steps.push(toStep(entry));
    }
    return steps;
  }
}

/** One checkpoint of a lineage; a root has the parent `''`. */
type Step = { readonly id: string; readonly branch: string; readonly parentId: string };

function toStep({ id, parentId, checkpoint, tombstone }: LineageEntry): Step {
  return { id, branch: (checkpoint ?? tombstone).branch, parentId: parentId ?? '' };
}

function extend(segments: readonly LineageSegment[], { id, branch, parentId }: Step): LineageSegment[] {
  const [last, ...rest] = segments;
  return last !== undefined && last.branch === branch
    ? [{ ...last, to: id }, ...rest]
    : [{ branch, base: parentId, to: id }, ...segments];
}

/** A session as writers and readers name it: an open Session, or a description of one that was saved; without a branch its current one. */
export type SessionPlace = {
  readonly id: SessionId | string;
  readonly branch?: string | undefined;
  readonly head?: { readonly id: string } | undefined;
};

/** Where a session stands: on which branch, at which checkpoint, if any, and what leads there. */
export type Standing = {
  readonly branch: string;
  readonly headId: string | undefined;
  readonly lineage: readonly LineageSegment[];
};

function unknownPlace({ id, branch }: SessionPlace, refs: readonly Ref[]): NotFoundError {
  const branches = refs.filter(({ kind }) => kind === 'branch').map(({ name }) => `"${name}"`);
  const found =
    branches.length === 0
      ? `There is no session "${id}" in the storage of the memory's manager.`
      : `Session "${id}" has no branch "${branch}"; it has ${branches.join(', ')}.`;
  return new NotFoundError(
    `${found} Pass the open Session, { id, branch } of one that was saved, or { id } for its current branch.`,
    { details: { sessionId: id, ...(branch !== undefined && { branch }) } },
  );
}
