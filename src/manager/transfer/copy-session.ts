import { ConflictError, CorruptError, isLost, messageOf } from '../../core/errors.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, type SessionId } from '../../core/record/id.ts';
import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type {
  CheckpointRow,
  CheckpointRowWithRoot,
  ChunkStorage,
  Deletion,
  Ref,
  RefChange,
} from '../../storage/contract.ts';
import { refKey } from '../../storage/held-session.ts';
import { checkRef } from '../../storage/ref.ts';
import { isRefused } from '../../storage/refusal.ts';
import { endedTarget, findEnded, formatTombstone, isFoldedInto, parseRow, readPages } from '../engine/records.ts';
import type { Beside, ChunkMover, Moved } from './chunk-mover.ts';
import { isPlaceholder, isSealedRow, readFold, readParent, toNewCheckpoint } from './copied-record.ts';
import { copyEffects, dropCopied, isCount, type SettledSteps } from './copy-effects.ts';
import { isExportedKind, toPlaceholder } from './export.ts';
import type { SealedCheck } from './sealed-check.ts';

/** What a copy did. */
export type CopyCounts = { checkpoints: number; present: number; deleted: number; chunks: number };

/** How to copy. */
export type CopyWay = {
  /** Deletes there what was deleted here. */
  readonly mirror?: boolean | undefined;
  /** Reads back what was written. */
  readonly check?: boolean | undefined;
  /** Checks what is encrypted. */
  readonly sealed?: SealedCheck | undefined;
  readonly onCheckpoint?: (() => Promise<void>) | undefined;
};

/** What a storage has of a checkpoint; `begun`: what a copy that was killed put in for a tombstone. */
type Found = { readonly as: 'live' | 'deleted' | 'begun'; readonly digest: Digest };
type Rows = { readonly rows: ReadonlyMap<CheckpointId, Found>; readonly folds: readonly Tombstone[] };

/**
 * Copies one session to another storage, record by record, oldest first. What is there already is left alone, so a copy that was stopped
 * goes on where it was, and one that is repeated brings what came since. First the records (`copyRows`), then, for names that were read
 * after them, what came in between, the steps and the names (`copyNames`): so names never point at what is not there.
 */
export class SessionCopier {
  readonly sessionId: SessionId;
  readonly counts: CopyCounts = { checkpoints: 0, present: 0, deleted: 0, chunks: 0 };
  /** What could not be copied because it is damaged here, in plain words. */
  readonly problems: string[] = [];
  readonly #chunks: ChunkMover;
  readonly #way: CopyWay;
  readonly #breather = new Breather();
  readonly #deletions: Deletion[] = [];
  /** What this copy brought, and what it could not. */
  readonly #brought = new Set<CheckpointId>();
  readonly #failed = new Set<CheckpointId>();
  /** Branches there of which nothing is left here, not even tombstones: they are left alone. */
  readonly #ended = new Set<string>();

  constructor(sessionId: SessionId, chunks: ChunkMover, way: CopyWay) {
    this.sessionId = sessionId;
    this.#chunks = chunks;
    this.#way = way;
  }

  /** Copies every record that is not there. */
  async copyRows(): Promise<void> {
    const { from, to } = this.#chunks;
    await this.#readNames();
    const there = await readRows(to, this.sessionId);
    const extra = new Map(there.rows);
    for await (const rows of readPages(from, { sessionId: this.sessionId, order: 'oldest', include: 'all' }))
      for (const row of rows) {
        extra.delete(row.id);
        await this.#attempt(row, there);
        await this.#breather.breathe();
      }
    for (const [id, { as }] of extra) if (this.#way.mirror || as === 'begun') await this.#deleteExtra(id);
  }

  /** What is damaged here does not keep the rest from being copied. */
  async #attempt(row: CheckpointRow, there: Rows): Promise<void> {
    try {
      if (!row.isDeleted) await this.#way.onCheckpoint?.();
      await this.#copyRow(row, there);
    } catch (error) {
      if (!isLost(error)) throw error;
      this.#failed.add(row.id);
      this.problems.push(`Checkpoint ${row.id} was not copied. ${messageOf(error)}`);
    }
  }

  async #copyRow(row: CheckpointRow, { rows, folds }: Rows): Promise<void> {
    const found = rows.get(row.id);
    if (found === undefined && !isFolded(row, folds)) return this.#copyNew(row);
    this.#checkSame(row, found);
    if (!row.isDeleted) this.counts.present++;
    else if (found?.as === 'begun' || (this.#way.mirror && found?.as === 'live'))
      this.#deletions.push({ id: row.id, body: row.body });
  }

  /** What has the same id there must be the same: what comes after it here builds on what it is here. Nobody can tell which of two is to stay. */
  #checkSame({ id, digest, isDeleted }: CheckpointRow, found: Found | undefined): void {
    if (isDeleted || found?.as !== 'live' || found.digest === digest) return;
    throw new ConflictError(
      `Session "${this.sessionId}" was rewritten (redact) in one of the two storages: checkpoint ${id} is another one there. Nothing more of it was copied. Redact it in the same way in the other storage, or delete it there, and copy again.`,
      { details: { sessionId: this.sessionId, id } },
    );
  }

  /** What is gone here altogether: its tombstone was folded into another. */
  async #deleteExtra(id: CheckpointId): Promise<void> {
    const row = await this.#chunks.to.readCheckpoint(id);
    if (row === undefined || row.isDeleted) return;
    if (isSealedRow(row)) {
      this.problems.push(`Checkpoint ${id} is gone, and cannot be marked as deleted there without keys.`);
      return;
    }
    // Of what was put in for a tombstone only the place is known.
    const record = isPlaceholder(row)
      ? new Checkpoint(JSON.parse(row.body) as CheckpointHeader, row.digest)
      : parseRow(row);
    if (this.#ended.has(record.branch)) return;
    if (!isPlaceholder(row) && !(await this.#isForgone(record)))
      this.problems.push(`Checkpoint ${id} is gone, and nothing says that it was deleted: it is left there.`);
    else this.#deletions.push({ id, body: formatTombstone(record, Date.now(), 'deleted where it came from') });
  }

  /** Whether a record that is not here was deleted, and not lost. */
  async #isForgone(record: Pick<Tombstone, 'id' | 'branch' | 'sequence'>): Promise<boolean> {
    const { from } = this.#chunks;
    const ended = findEnded(await from.readRefs({ sessionId: this.sessionId })) ?? '';
    const { folds } = await readRows(from, this.sessionId);
    return endedTarget(record.id) <= ended || folds.some((fold) => isFoldedInto(fold, record));
  }

  async #copyNew(listed: CheckpointRow): Promise<void> {
    const row = await this.#chunks.from.readCheckpoint(listed.id);
    if (row === undefined) return; // deleted since, and folded
    if (!row.isDeleted && row.root !== undefined) return this.#copyLive({ ...row, root: row.root });
    if (!row.isDeleted)
      throw new CorruptError(`The root of the state of checkpoint ${row.id} is missing.`, { details: { id: row.id } });
    const { to } = this.#chunks;
    readParent(row); // which checks it
    await this.#way.sealed?.checkRow(row);
    await to.commit({ sessionId: this.sessionId, checkpoint: toPlaceholder(row) });
    await to.deleteCheckpoints([{ id: row.id, body: row.body }]);
  }

  async #copyLive(row: CheckpointRowWithRoot & { root: ChunkContent }): Promise<void> {
    const { to, from } = this.#chunks;
    const commit = { sessionId: this.sessionId, checkpoint: toNewCheckpoint(row) };
    await this.#way.sealed?.checkRow(row);
    try {
      const store = (brought: Moved) => to.commit({ ...commit, ...brought });
      const { moved, result } = await this.#chunks.bring(row.root, store, await this.#readBeside(row));
      if (result.status === 'duplicate')
        throw this.#wentOn(commit.checkpoint.header.branch, `with the idempotency key of ${row.id}`);
      this.#chunks.note(moved, row.id);
      this.counts.checkpoints++;
      this.#brought.add(row.id);
      this.counts.chunks += moved.chunks.length;
      if (this.#way.check) await this.#chunks.check(moved);
    } catch (error) {
      if (isRefused(error, 'taken'))
        this.counts.present++; // another copy was faster
      else if (!isLost(error) || (await from.readCheckpoint(row.id))?.isDeleted === false) throw error; // else it was deleted while it was read
    }
  }

  /** The parent, if it is there: most of the state is its, too. */
  async #readBeside(row: CheckpointRow): Promise<Beside | undefined> {
    const id = readParent(row);
    if (id === undefined || this.#chunks.knows(id)) return undefined;
    const parent = await this.#chunks.to.readCheckpoint(id);
    if (parent === undefined && !this.#failed.has(id) && (await this.#chunks.from.readCheckpoint(id)) === undefined)
      this.problems.push(`The parent ${id} of checkpoint ${row.id} is missing.`);
    return parent?.root === undefined || parent.isDeleted ? undefined : { id, root: parent.root };
  }

  /** Copies steps and names, and what the names need. `names` are those of this session, read after its records were copied. */
  async copyNames(names: readonly Ref[], settled: SettledSteps): Promise<void> {
    const { counts, sessionId } = this;
    const { to } = this.#chunks;
    const refs = names.map(checkRef).filter(({ kind }) => isExportedKind(kind));
    const there = await this.#readNames(refs);
    await this.#copyNamed(refs.filter((ref) => there.get(refKey(ref))?.target !== ref.target));
    counts.chunks += await copyEffects(
      this.#chunks,
      { sessionId, refs, there, settled, sealed: this.#way.sealed },
      (branch, where) => this.#wentOn(branch, where),
    );
    await this.#moveNames(refs, there);
    if (this.#way.mirror) await dropCopied(to, { sessionId, refs, there });
    if (this.#deletions.length > 0) counts.deleted += (await to.deleteCheckpoints(this.#deletions)).length;
  }

  /** The names there. Every head there must be known here, or the copy would lose it. */
  async #readNames(here: readonly Ref[] = []): Promise<Map<string, Ref>> {
    const known = new Set(here.map(({ target }) => target));
    const refs = new Map<string, Ref>();
    for (const ref of await this.#chunks.to.readRefs({ sessionId: this.sessionId })) {
      const { kind, name, target } = checkRef(ref);
      if (kind === 'import')
        throw new ConflictError(`Session "${this.sessionId}" is being imported in the other storage.`);
      const isKnown = kind !== 'branch' || known.has(target) || (await this.#isKnown(target as CheckpointId));
      if (isKnown) refs.set(refKey(ref), ref);
      else if (await this.#isEnded(ref)) this.#ended.add(name);
      else throw this.#wentOn(name, `at ${target}`);
    }
    return refs;
  }

  async #isKnown(id: CheckpointId): Promise<boolean> {
    const { from, to } = this.#chunks;
    const found = await from.readCheckpoint(id);
    if (found !== undefined) return found.sessionId === this.sessionId;
    const row = await to.readCheckpoint(id);
    return row !== undefined && isFolded(row, (await readRows(from, this.sessionId)).folds);
  }

  /** Whether a branch there may be one that was deleted here long ago, so that its tombstones are gone, too. */
  async #isEnded({ name, target }: Ref): Promise<boolean> {
    const refs = await this.#chunks.from.readRefs({ sessionId: this.sessionId });
    const isHere = refs.some((ref) => ref.kind === 'branch' && ref.name === name);
    return !isHere && endedTarget(target as CheckpointId) <= (findEnded(refs) ?? '');
  }

  /** What was saved after the records were listed: from each name back to what is there, then oldest first. */
  async #copyNamed(refs: readonly Ref[]): Promise<void> {
    const missing = new Map<CheckpointId, CheckpointRow>();
    for (const { target } of refs.filter(isPointing)) await this.#gatherMissing(target as CheckpointId, missing);
    const rows = [...missing.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    for (const row of rows) if (!this.#failed.has(row.id)) await this.#attempt(row, { rows: new Map(), folds: [] });
  }

  async #gatherMissing(from: CheckpointId, missing: Map<CheckpointId, CheckpointRow>): Promise<void> {
    for (let id: CheckpointId | undefined = from; id !== undefined && !missing.has(id); ) {
      const found = await this.#chunks.to.readCheckpoint(id);
      const row: CheckpointRow | undefined = await this.#chunks.from.readCheckpoint(id);
      if (row?.sessionId !== this.sessionId) return;
      if (found !== undefined) return this.#checkSame(row, toFound(found));
      missing.set(id, row);
      id = readParent(row);
    }
  }

  /** One commit. A name of what was deleted there, or could not be copied, is left out; of what this copy brought, that is told. */
  async #moveNames(refs: readonly Ref[], there: ReadonlyMap<string, Ref>): Promise<void> {
    const changes: RefChange[] = [];
    for (const ref of refs) {
      const { kind, name, target } = ref;
      const expect = there.get(refKey(ref))?.target ?? null;
      const isBehind = isCount(ref) ? Number(expect) < Number(target) : expect !== target;
      if (isBehind && (await this.#canName(ref))) changes.push({ kind, name, target, expect });
    }
    if (this.#way.mirror) changes.push(...findRemoved(refs, there));
    if (changes.length > 0) await this.#chunks.to.commit({ sessionId: this.sessionId, refs: changes });
  }

  /** A name protects what it names only once it is there, at the end: retention of a program there may be faster. */
  async #canName(ref: Ref): Promise<boolean> {
    const { kind, name } = ref;
    const id = ref.target as CheckpointId;
    const there = await this.#chunks.to.readCheckpoint(id);
    if (!isPointing(ref) || there?.isDeleted === false) return true;
    if (there === undefined && !this.#failed.has(id) && (await this.#isDangling(ref)))
      this.problems.push(`The ${kind} "${name}" was not copied: ${id}, which it names, is missing.`);
    if (this.#brought.has(id))
      this.problems.push(
        `The ${kind} "${name}" was not copied: ${id} was deleted there meanwhile. Stop the program that prunes there, or raise its limits, and copy to a storage without the session.`,
      );
    return false;
  }

  /** Whether what a name is for was lost here, and not deleted meanwhile with the name. */
  async #isDangling({ kind, name, target }: Ref): Promise<boolean> {
    const { from } = this.#chunks;
    if ((await from.readCheckpoint(target as CheckpointId)) !== undefined) return false;
    const refs = await from.readRefs({ sessionId: this.sessionId, kind, name });
    return refs.some((ref) => ref.target === target);
  }

  #wentOn(branch: string, where: string): ConflictError {
    return new ConflictError(
      `Branch "${branch}" of session "${this.sessionId}" went on by itself in the other storage, ${where}, or was deleted and begun again in this one. Nothing of it was copied. Copy to another storage, or delete the session there first.`,
      { details: { sessionId: this.sessionId, branch } },
    );
  }
}

async function readRows(storage: ChunkStorage, sessionId: SessionId): Promise<Rows> {
  const rows = new Map<CheckpointId, Found>();
  const folds: Tombstone[] = [];
  for await (const page of readPages(storage, { sessionId, order: 'oldest', include: 'all' }))
    for (const row of page) {
      rows.set(row.id, toFound(row));
      folds.push(...readFold(row));
    }
  return { rows, folds };
}

function toFound(row: CheckpointRow): Found {
  return { as: row.isDeleted ? 'deleted' : isPlaceholder(row) ? 'begun' : 'live', digest: row.digest };
}

/** Whether it was deleted, and its tombstone folded into one of these. */
function isFolded(row: CheckpointRow, folds: readonly Tombstone[]): boolean {
  if (folds.length === 0 || isSealedRow(row)) return false;
  const place = JSON.parse(row.body) as Tombstone;
  return folds.some((fold) => isFoldedInto(fold, place));
}

/** Takes the names away there that are gone here. */
function findRemoved(refs: readonly Ref[], there: ReadonlyMap<string, Ref>): RefChange[] {
  const here = new Set(refs.map(refKey));
  return [...there]
    .filter(([key, ref]) => !here.has(key) && isExportedKind(ref.kind) && !isCount(ref))
    .map(([, { kind, name, target }]) => ({ kind, name, target: null, expect: target }));
}

function isPointing({ kind, target }: Ref): boolean {
  return kind !== 'log' && isCheckpointId(target);
}
