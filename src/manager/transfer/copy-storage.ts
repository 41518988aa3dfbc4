import { ConflictError, hasErrorCode, InvalidInputError, isLost, messageOf, NotFoundError } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import type { SessionId } from '../../core/record/id.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage, Ref } from '../../storage/contract.ts';
import { areSameRefs } from '../../storage/ref.ts';
import { isClaim, WHOLE, withoutPending } from '../engine/import-claim.ts';
import { eachSession } from '../engine/records.ts';
import { ChunkMover } from './chunk-mover.ts';
import type { SettledSteps } from './copy-effects.ts';
import { type CopyCounts, type CopyWay, SessionCopier } from './copy-session.ts';
import { isExportedKind } from './export.ts';

/** One session, and what was done and could not be done. */
export type CopiedSession = CopyCounts & { readonly sessionId: SessionId; readonly problems: readonly string[] };

/** What a copy of a storage did. `deletedSessions` were deleted there, because they are gone here. */
export type CopyReport = {
  readonly sessions: readonly CopiedSession[];
  readonly deletedSessions: readonly SessionId[];
};

/** What is copied (default: every session) and how. */
export type CopyStorageOptions = CopyWay & {
  readonly sessions?: readonly SessionId[] | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** How often a session is begun again whose names changed while they were followed. */
const MAX_ATTEMPTS = 3;

/**
 * Copies a storage to another one: first the records of every session, then all names as they were at one moment, with what they need.
 * So the copy is of one moment, also if others go on saving, and a copy that was cut off has no names of what it lacks. A session that
 * cannot be copied is reported and does not stop the others.
 */
export class StorageCopy {
  readonly #chunks: ChunkMover;
  readonly #options: CopyStorageOptions;
  /** How far the steps of each session are settled. */
  readonly #settled = new Map<SessionId, SettledSteps>();

  constructor(from: ChunkStorage, to: ChunkStorage, options: CopyStorageOptions = {}) {
    this.#chunks = new ChunkMover(from, to);
    this.#options = options;
  }

  /** Copies all. */
  async run(): Promise<CopyReport> {
    const { from } = this.#chunks;
    const { sessions } = this.#options;
    await this.#checkKinds();
    this.#settled.clear();
    const copied: CopiedSession[] = [];
    const copiers = new Map<SessionId, SessionCopier | undefined>();
    for await (const sessionId of sessions ?? eachSession(from)) {
      const copier = this.#begin(sessionId);
      const problem = await attempt(() => this.#copyRows(copier));
      copiers.set(sessionId, problem === undefined ? copier : undefined);
      if (problem !== undefined) copied.push(report(copier, problem));
    }
    const refs = sessions === undefined ? await this.#readAllNames(copiers.values()) : [];
    const names = groupBy(refs, ({ sessionId }) => sessionId);
    for (const sessionId of names.keys()) if (!copiers.has(sessionId)) copiers.set(sessionId, this.#begin(sessionId));
    for (const [sessionId, copier] of copiers)
      if (copier !== undefined) copied.push(...(await this.#finish(copier, names.get(sessionId))));
    copied.sort((a, b) => (a.sessionId < b.sessionId ? -1 : 1));
    return { sessions: copied, deletedSessions: await this.#deleteOthers(copied) };
  }

  /** Copies what is new in these sessions, by their names, if those are known; deletions are not looked for. Cost follows what is new. */
  async update(names: ReadonlyMap<SessionId, readonly Ref[] | undefined>): Promise<CopiedSession[]> {
    const copied: CopiedSession[] = [];
    for (const [sessionId, refs] of names) copied.push(...(await this.#finish(this.#begin(sessionId), refs)));
    return copied;
  }

  /** Whether a session has steps that had not ended when it was copied: they end without a name being moved. */
  hasOpenSteps(sessionId: SessionId, refs: readonly Ref[]): boolean {
    const settled = this.#settled.get(sessionId);
    return refs.some(({ kind, name, target }) => kind === 'log' && Number(target) > (settled?.get(name) ?? 0));
  }

  #begin(sessionId: SessionId): SessionCopier {
    this.#options.signal?.throwIfAborted();
    return new SessionCopier(sessionId, this.#chunks, this.#options);
  }

  /** All names at one moment. If one is damaged and nobody knows whose it is, none: they are read session by session then. */
  async #readAllNames(copiers: Iterable<SessionCopier | undefined>): Promise<readonly Ref[]> {
    try {
      return await this.#chunks.from.readRefs();
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      for (const copier of copiers) copier?.problems.push(`Its names may be of another moment. ${messageOf(error)}`);
      return [];
    }
  }

  /** Nothing of a session that is being brought in: its records may be taken back. */
  async #copyRows(copier: SessionCopier): Promise<void> {
    const { sessionId } = copier;
    const [there] = await withoutPending(this.#chunks.from, [{ sessionId }]);
    if (there !== undefined) await copier.copyRows();
  }

  /** A sealed storage copied as it is, and a plain one, are not to be mixed: neither with keys nor without could all be read. */
  async #checkKinds(): Promise<void> {
    const { from, to } = this.#chunks;
    const [here] = await from.listSessions({ limit: 1 });
    const [there] = await to.listSessions({ limit: 1 });
    if (here === undefined || there === undefined || isSealedName(here) === isSealedName(there)) return;
    const [one, other] = isSealedName(here) ? ['is encrypted', 'is not'] : ['is not encrypted', 'is'];
    throw new InvalidInputError(`The storage ${one}, and the other one ${other}. Choose another target.`);
  }

  /** Nothing of a session that is gone meanwhile, or is being imported. */
  async #finish(copier: SessionCopier, names?: readonly Ref[]): Promise<CopiedSession[]> {
    const { sessionId } = copier;
    const readRefs = () => this.#chunks.from.readRefs({ sessionId });
    const settled: SettledSteps = this.#settled.get(sessionId) ?? new Map();
    let refs = names;
    for (let attempts = 1; ; attempts++) {
      this.#options.signal?.throwIfAborted();
      const known = refs ?? (await readRefs());
      if (!known.some(({ kind }) => isExportedKind(kind))) return this.#nameless(copier, known);
      const problem = await attempt(() => copier.copyNames(known, settled));
      if (problem === undefined) {
        this.#settled.set(sessionId, settled);
        return [report(copier)];
      }
      settled.clear();
      refs = undefined;
      if (attempts === MAX_ATTEMPTS || areSameRefs(await readRefs(), known)) return [report(copier, problem)];
    }
  }

  async #nameless(copier: SessionCopier, refs: readonly Ref[]): Promise<CopiedSession[]> {
    const { sessionId } = copier;
    const [row] = await this.#chunks.from.listCheckpoints({ sessionId, limit: 1 });
    if (row === undefined && this.#options.sessions !== undefined)
      throw new NotFoundError(`There is no session "${sessionId}" to copy.`, { details: { sessionId } });
    if (row === undefined) return [];
    if (refs.some(isClaim)) return this.#unfinished(copier, refs);
    return [
      report(copier, 'It has checkpoints and no names: a copy to this storage was cut off. Repeat that one first.'),
    ];
  }

  /** A draft is all there is of the session it names, if that is gone. Names are sealed here, maybe: what they point at tells. */
  async #unfinished(copier: SessionCopier, refs: readonly Ref[]): Promise<CopiedSession[]> {
    if (refs.length === 1) return []; // an import under way
    for (const { target } of refs)
      if (!(await this.#chunks.from.readRefs({ sessionId: target })).every(isClaim)) return [];
    const sessionId = (refs.find(({ name }) => name === WHOLE.name)?.target ?? copier.sessionId) as SessionId;
    const problem =
      'It is being redacted, or a "redact" was killed. Open the session, or run "savestate sessions", which finishes that, and repeat this.';
    return [{ ...report(copier, problem), sessionId }];
  }

  /** With `mirror`, deletes the sessions that are gone here. Nothing, if none is common to both, or one could not be copied: it may be another storage. */
  async #deleteOthers(copied: readonly CopiedSession[]): Promise<SessionId[]> {
    if (!this.#options.mirror) return [];
    const { from, to } = this.#chunks;
    const here = new Set(copied.map(({ sessionId }) => sessionId));
    const others: SessionId[] = [];
    for await (const sessionId of eachSession(to)) if (!here.has(sessionId)) others.push(sessionId);
    if (others.length === 0 || copied.some(({ problems }) => problems.length > 0)) return [];
    if (copied.every(({ present }) => present === 0))
      throw new ConflictError(
        `None of the ${others.length} other sessions of the target, such as "${others[0]}", was deleted: it has no session in common with this storage, so it may be a copy of another one.`,
      );
    const deleted: SessionId[] = [];
    for (const sessionId of others) {
      const isBegun = (await from.readRefs({ sessionId })).length > 0;
      if (!isBegun && (await to.deleteSession(sessionId))) deleted.push(sessionId);
    }
    return deleted;
  }
}

/** Why a session could not be copied, in words; undefined if it was. */
async function attempt(work: () => Promise<void>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (hasErrorCode(error, 'CONFLICT') || isLost(error)) return messageOf(error);
    throw error;
  }
}

function report({ sessionId, counts, problems }: SessionCopier, ...more: readonly string[]): CopiedSession {
  return { sessionId, ...counts, problems: [...problems, ...more] };
}
