import { ConflictError, hasErrorCode } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { sleep } from '../engine/ports.ts';
import { parseRow } from '../engine/repository.ts';
import { formatTombstone } from '../engine/tombstone.ts';

/** The name of the claim among the refs of a session. */
const CLAIM = { kind: 'import', name: 'import' } as const;

/** A claim that did not move for this long is that of an import that was killed. */
const ABANDONED_MS = 10_000;
const RENEW_MS = 2000;
const LOOK_MS = 250;
const BATCH = 200;

/** Says that a session is being brought in, so that one import does it at a time, and what a killed one left is known for that. */
export class ImportClaim {
  readonly #context: Engine;
  readonly #sessionId: SessionId;
  readonly #token: string;
  #beat = 0;
  #beatAtMs = performance.now();

  constructor(context: Engine, sessionId: SessionId) {
    this.#context = context;
    this.#sessionId = sessionId;
    this.#token = context.ports.nextId();
  }

  get #target(): string {
    return `${this.#token}.${this.#beat}`;
  }

  async take(): Promise<void> {
    const refs = [{ ...CLAIM, expect: null, target: this.#target }];
    await this.#context.storage.commit({ sessionId: this.#sessionId, refs });
  }

  /** For each commit: that the claim still stands; from time to time it moves, which shows others that somebody is there. */
  check(): RefChange[] {
    const expect = this.#target;
    if (performance.now() - this.#beatAtMs > RENEW_MS) {
      this.#beat++;
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
    const { storage } = this.#context;
    const refs = await storage.readRefs({ sessionId: this.#sessionId });
    const own = refs.filter((ref) => isClaim(ref) && ref.target.startsWith(`${this.#token}.`));
    if (own.length === 0) return; // ended, or taken over as abandoned: what is there is not ours
    if (await storage.deleteSession(this.#sessionId, { ifRefs: own })) return;
    for (let at = 0; at < ids.length; at += BATCH) await this.#delete(ids.slice(at, at + BATCH));
    const ends = own.map(({ target: expect }) => ({ ...CLAIM, expect, target: null }));
    await storage.commit({ sessionId: this.#sessionId, refs: ends });
  }

  async #delete(ids: readonly CheckpointId[]): Promise<void> {
    const { storage, ports } = this.#context;
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
export async function claimSession(context: Engine, sessionId: SessionId): Promise<ImportClaim> {
  for (;;) {
    await removeAbandoned(context, sessionId);
    await checkAbsent(context, sessionId);
    const claim = new ImportClaim(context, sessionId);
    try {
      await claim.take();
    } catch (error) {
      if (hasErrorCode(error, 'CONFLICT')) continue;
      throw error;
    }
    const refs = await context.storage.readRefs({ sessionId });
    if (refs.every(isClaim)) return claim;
    await claim.giveUp([]);
    throw isThere(sessionId);
  }
}

async function checkAbsent({ storage }: Engine, sessionId: SessionId): Promise<void> {
  const refs = await storage.readRefs({ sessionId });
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

async function removeAbandoned({ storage, ports }: Engine, sessionId: SessionId): Promise<void> {
  let last: readonly Ref[] = [];
  let waitedMs = 0;
  for (;;) {
    const refs = await storage.readRefs({ sessionId, kind: CLAIM.kind });
    if (refs.length === 0) return;
    waitedMs = refs[0]?.target === last[0]?.target ? waitedMs + LOOK_MS : 0;
    if (waitedMs >= ABANDONED_MS) break;
    last = refs;
    await sleep(ports, LOOK_MS);
  }
  if (await storage.deleteSession(sessionId, { ifRefs: last })) return;
  // Somebody else began the session after all: it is theirs, and the claim is in nobody's way.
  throw isThere(sessionId);
}

function isClaim({ kind, name }: Pick<Ref, 'kind' | 'name'>): boolean {
  return kind === CLAIM.kind && name === CLAIM.name;
}
