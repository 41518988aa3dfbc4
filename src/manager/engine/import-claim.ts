import { ConflictError, hasErrorCode, isLost } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Ref, RefChange } from '../../storage/contract.ts';
import type { Engine } from './engine.ts';
import { formatTombstone, parseRow } from './records.ts';

/** The name of the claim among the refs of a session. */
const CLAIM = { kind: 'import', name: 'import' } as const;
/** Says of a draft that all of it is there, and whose. */
export const WHOLE = { kind: 'import', name: 'whole' } as const;

/** The session that holds what is to replace another one, until it has. */
export function draftOf(sessionId: SessionId): SessionId {
  return `import/${digestText(sessionId)}` as SessionId;
}

/** Whether what is to replace a session is all there: if the session is not, it soon is again. */
export async function hasReplacement(storage: Claims, sessionId: SessionId): Promise<boolean> {
  return (await storage.readRefs({ sessionId: draftOf(sessionId), ...WHOLE })).length > 0;
}

/** Whether a session has no branches, and is not about to have them again, rewritten. */
export async function isSessionGone(storage: Claims, sessionId: SessionId): Promise<boolean> {
  if ((await storage.readRefs({ sessionId, kind: 'branch' })).length > 0) return false;
  return !(await hasReplacement(storage, sessionId));
}

/** A claim that did not move for this long is that of an import that was killed. */
const ABANDONED_MS = 10_000;
/** And one whose time is so long ago, at once: no two clocks differ by that much. */
const LONG_AGO_MS = 3_600_000;
const RENEW_MS = 2000;
const LOOK_MS = 250;
const BATCH = 200;

/** Says that a session is being brought in, so that one import does it at a time, and what a killed one left is known for that. */
export class ImportClaim {
  readonly #engine: Engine;
  readonly #sessionId: SessionId;
  readonly #token: string;
  #beatMs: number;
  #beatAtMs = performance.now();

  constructor(engine: Engine, sessionId: SessionId) {
    this.#engine = engine;
    this.#sessionId = sessionId;
    this.#token = engine.ports.nextId();
    this.#beatMs = engine.ports.now();
  }

  get #target(): string {
    return `${this.#token}.${this.#beatMs}`;
  }

  async take(): Promise<void> {
    const refs = [{ ...CLAIM, expect: null, target: this.#target }];
    await this.#engine.storage.commit({ sessionId: this.#sessionId, refs });
  }

  /** For each commit: that the claim still stands; from time to time it moves, which shows others that somebody is there. */
  check(): RefChange[] {
    const expect = this.#target;
    if (performance.now() - this.#beatAtMs > RENEW_MS) {
      this.#beatMs = Math.max(this.#beatMs + 1, this.#engine.ports.now());
      this.#beatAtMs = performance.now();
    }
    return [{ ...CLAIM, expect, target: this.#target }];
  }

  /** For the last commit. */
  end(): RefChange[] {
    return [{ ...CLAIM, expect: this.#target, target: null }];
  }

  /** Removes what was written under the claim: the whole session, or, if somebody else began it meanwhile, these checkpoints of it. */
  async giveUp(ids: readonly CheckpointId[]): Promise<void> {
    const { storage } = this.#engine;
    const refs = await storage.readRefs({ sessionId: this.#sessionId });
    const own = refs.filter((ref) => isClaim(ref) && ref.target.startsWith(`${this.#token}.`));
    if (own.length === 0) return; // ended, or taken over as abandoned: what is there is not ours
    if (await storage.deleteSession(this.#sessionId, { ifRefs: own })) return;
    for (let at = 0; at < ids.length; at += BATCH) await this.#delete(ids.slice(at, at + BATCH));
    const ends = own.map(({ target: expect }) => ({ ...CLAIM, expect, target: null }));
    await storage.commit({ sessionId: this.#sessionId, refs: ends });
  }

  async #delete(ids: readonly CheckpointId[]): Promise<void> {
    const { storage, ports } = this.#engine;
    const rows = await Promise.all(ids.map((id) => storage.readCheckpoint(id)));
    const deletions = rows.flatMap((row) =>
      row === undefined || row.isDeleted
        ? []
        : [{ id: row.id, body: formatTombstone(parseRow(row), ports.now(), 'its import was given up') }],
    );
    await storage.deleteCheckpoints(deletions);
  }
}

/** Claims a session that is not there. Waits for another import of it; what one that was killed left is removed. */
export async function claimSession(engine: Engine, sessionId: SessionId): Promise<ImportClaim> {
  for (;;) {
    await awaitImport(engine, sessionId);
    await checkAbsent(engine, sessionId);
    const claim = new ImportClaim(engine, sessionId);
    try {
      await claim.take();
    } catch (error) {
      if (hasErrorCode(error, 'CONFLICT')) continue;
      throw error;
    }
    const refs = await engine.storage.readRefs({ sessionId });
    if (refs.every(isClaim)) return claim;
    await claim.giveUp([]);
    throw isThere(sessionId);
  }
}

async function checkAbsent({ storage, repository }: Engine, sessionId: SessionId): Promise<void> {
  const refs = await repository.readRefs({ sessionId });
  if (refs.some((ref) => !isClaim(ref))) throw isThere(sessionId);
  const rows = await storage.listCheckpoints({ sessionId, limit: 1, include: 'all' });
  if (refs.length === 0 && rows.length > 0) throw isThere(sessionId);
}

function isThere(sessionId: SessionId): ConflictError {
  return new ConflictError(
    `Session "${sessionId}" is in this storage already. Delete it first, or import into another storage.`,
    { details: { sessionId } },
  );
}

/**
 * Waits for an import of a session that is under way, and removes what one that was killed left: all that is there under its claim
 * alone; what was to replace the session is brought in. Returns whether there was one. A session that somebody began beside an import
 * is theirs, and stays.
 */
export async function settleImport(engine: Engine, sessionId: SessionId): Promise<boolean> {
  const wasImported = await awaitImport(engine, sessionId);
  const { storage } = engine;
  const isReplaced = (await hasReplacement(storage, sessionId)) && (await storage.readRefs({ sessionId })).length === 0;
  return isReplaced && engine.finishing.replacement !== undefined
    ? engine.finishing.replacement(engine, sessionId)
    : wasImported;
}

/**
 * Brings in every session whose replacement was killed: who looks at all sessions would take it for absent. One that cannot be read any
 * more does not stop the others, and stays: whoever opens that session is told.
 */
export async function settleReplacements(engine: Engine): Promise<void> {
  for (const { target } of await engine.storage.readRefs(WHOLE))
    try {
      await settleImport(engine, target as SessionId);
    } catch (error) {
      if (!isLost(error)) throw error;
    }
}

/** Removes what imports left that were killed long ago: nobody may ask for these sessions again. */
export async function dropAbandoned(engine: Engine): Promise<void> {
  for (const claim of await engine.storage.readRefs(CLAIM))
    if (isLongAgo(claim, engine)) await awaitImport(engine, claim.sessionId);
}

async function awaitImport(engine: Engine, sessionId: SessionId): Promise<boolean> {
  const { storage, ports } = engine;
  let last: string | undefined;
  let waitedMs = 0;
  for (;;) {
    const refs = await storage.readRefs({ sessionId });
    const claim = refs.find(isClaim);
    if (claim === undefined || refs.length > 1) return last !== undefined;
    waitedMs = claim.target === last ? waitedMs + LOOK_MS : 0;
    const isAbandoned = waitedMs >= ABANDONED_MS || isLongAgo(claim, engine);
    // If that fails, something changed meanwhile: look again.
    if (isAbandoned) await storage.deleteSession(sessionId, { ifRefs: refs });
    else await sleep(ports, LOOK_MS);
    last = claim.target;
  }
}

function isLongAgo({ target }: Ref, { ports }: Engine): boolean {
  return ports.now() - Number(target.split('.').at(-1)) > LONG_AGO_MS;
}

/** Of so many sessions claims are looked up one by one; of more, all there are at once. */
const FEW = 20;

type Claims = Pick<ChunkStorage, 'readRefs'>;

/**
 * Those of some sessions, or of all, of which an import has stored some checkpoints, and no names yet; a draft is one. Nothing is
 * remembered: a session that was there may have been deleted since, and be on its way in again.
 */
export async function findPending(storage: Claims, some?: ReadonlySet<SessionId>): Promise<ReadonlySet<SessionId>> {
  const { kind } = CLAIM;
  const claims =
    some === undefined || some.size > FEW
      ? await storage.readRefs({ kind })
      : (
          await Promise.all([...some].map((sessionId) => storage.readRefs({ sessionId, kind }).catch(noneOfDamaged)))
        ).flat();
  const pending = new Set<SessionId>();
  for (const { sessionId } of claims)
    if ((await storage.readRefs({ sessionId })).every(isClaim)) pending.add(sessionId); // else somebody began it beside the import
  return pending;
}

/** What is not in a session that is pending. */
export async function withoutPending<Item extends { readonly sessionId: SessionId }>(
  storage: Claims,
  items: readonly Item[],
): Promise<readonly Item[]> {
  const pending = await findPending(storage, new Set(items.map(({ sessionId }) => sessionId)));
  return pending.size === 0 ? items : items.filter((item) => !pending.has(item.sessionId));
}

/** A damaged session keeps its rows: whoever opens it is told, and the rest is listed. */
function noneOfDamaged(error: unknown): [] {
  if (hasErrorCode(error, 'CORRUPT')) return [];
  throw error;
}

/** Whether a name only says that something is being brought in. */
export function isClaim({ kind }: Pick<Ref, 'kind'>): boolean {
  return kind === CLAIM.kind;
}
