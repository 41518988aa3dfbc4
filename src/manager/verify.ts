import type { Checkpoint } from '../core/checkpoint.ts';
import { type Chunk, checkChunk, createChunk, type Digest } from '../core/chunk.ts';
import { SavestateError } from '../core/errors.ts';
import type { CheckpointId } from '../core/id.ts';
import type { CheckpointRow, EffectRow, Ref } from '../storage/contract.ts';
import { checkRef } from '../storage/ref.ts';
import { parseEffect } from './effect-record.ts';
import type { Engine } from './engine.ts';
import { parseRow } from './repository.ts';
import { parseTombstone } from './tombstone.ts';

/** One damage, in plain words. */
export type VerifyFinding = { readonly subject: string; readonly problem: string };

/** What a verification saw. `damagedCheckpoints` cannot be restored; all others can. */
export type VerifyReport = {
  readonly status: 'clean' | 'damaged';
  readonly checkpoints: number;
  readonly tombstones: number;
  readonly chunks: number;
  readonly effects: number;
  readonly sessions: number;
  readonly findings: readonly VerifyFinding[];
  readonly damagedCheckpoints: readonly CheckpointId[];
};

const PAGE = 500;

/** Checks every record, chain, head and effect, and, if `readData`, every chunk; names what is damaged and what that affects. */
export async function verify(
  context: Engine,
  { readData = true }: { readData?: boolean | undefined } = {},
): Promise<VerifyReport> {
  const verification = new Verification(context);
  await verification.checkBackend();
  if (readData) await verification.checkChunks();
  await verification.checkCheckpoints(readData);
  await verification.checkSessions();
  return verification.report();
}

class Verification {
  readonly #context: Engine;
  readonly #findings: VerifyFinding[] = [];
  readonly #digests = new Map<CheckpointId, Digest>();
  readonly #live = new Set<string>();
  readonly #damaged = new Set<CheckpointId>();
  /** What each sound chunk refers to. */
  readonly #refs = new Map<Digest, readonly Digest[]>();
  readonly #isWhole = new Map<Digest, boolean>();
  readonly #lookedAgain = new Set<Digest>();
  #counts = { checkpoints: 0, tombstones: 0, effects: 0, sessions: 0 };

  constructor(context: Engine) {
    this.#context = context;
  }

  report(): VerifyReport {
    return {
      status: this.#findings.length === 0 ? 'clean' : 'damaged',
      ...this.#counts,
      chunks: this.#refs.size,
      findings: this.#findings,
      damagedCheckpoints: [...this.#damaged],
    };
  }

  async checkBackend(): Promise<void> {
    for (const problem of await this.#context.storage.checkIntegrity())
      this.#add(`${this.#context.storage.kind} storage`, problem);
  }

  async checkChunks(): Promise<void> {
    let after: Digest | undefined;
    const ends = new Set<Digest>();
    for (;;) {
      const page = { limit: PAGE, ...(after !== undefined && { after }) };
      const digests = await this.#attempt('the list of chunks', () => this.#context.storage.listChunks(page));
      if (digests === undefined || digests.length === 0) return;
      for (const [at, chunk] of (await this.#readChunks(digests)).entries())
        this.#checkChunk(digests[at] as Digest, chunk);
      after = this.#nextPage('the list of chunks', ends, digests.at(-1));
      if (after === undefined) return;
    }
  }

  /** A damaged page fails the whole read: then one by one, to name the ones that cannot be read. */
  async #readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    try {
      return await this.#context.storage.readChunks(digests);
    } catch {
      const chunks: (Chunk | undefined)[] = [];
      for (const digest of digests) {
        const found = await this.#attempt(`chunk ${digest}`, () => this.#context.storage.readChunks([digest]));
        chunks.push(found?.[0]);
      }
      return chunks;
    }
  }

  #checkChunk(digest: Digest, chunk: Chunk | undefined): void {
    if (chunk === undefined) return; // collected since it was listed, or else whatever needs it will be named
    try {
      checkChunk({ ...chunk, digest });
      this.#refs.set(digest, chunk.refs);
    } catch (error) {
      this.#lookedAgain.add(digest);
      this.#add(`chunk ${digest}`, messageOf(error));
    }
  }

  async checkCheckpoints(readData: boolean): Promise<void> {
    let after: CheckpointId | undefined;
    const ends = new Set<CheckpointId>();
    for (;;) {
      const page = {
        order: 'oldest' as const,
        include: 'all' as const,
        limit: PAGE,
        ...(after !== undefined && { after }),
      };
      const rows = await this.#attempt('the list of checkpoints', () => this.#context.storage.listCheckpoints(page));
      if (rows === undefined || rows.length === 0) return;
      for (const row of rows) await this.#checkRow(row, readData);
      after = this.#nextPage('the list of checkpoints', ends, rows.at(-1)?.id);
      if (after === undefined) return;
    }
  }

  async #checkRow(row: CheckpointRow, readData: boolean): Promise<void> {
    this.#digests.set(row.id, row.digest);
    if (row.isDeleted) {
      this.#counts.tombstones++;
      await this.#attempt(`tombstone ${row.id}`, async () => parseTombstone(row));
      return;
    }
    this.#counts.checkpoints++;
    this.#live.add(row.id);
    const before = this.#findings.length;
    const checkpoint = await this.#attempt(`checkpoint ${row.id}`, async () => parseRow(row));
    if (checkpoint !== undefined) await this.#checkState(checkpoint, readData);
    if (checkpoint?.header.needsParent === true) await this.#checkNeed(checkpoint);
    if (this.#findings.length > before) this.#damaged.add(row.id);
    if (checkpoint !== undefined) this.#checkChain(checkpoint); // a broken chain is damage, but the state can be restored
  }

  /** Parents come first, so what is wrong with this one's is known. */
  async #checkNeed({ id, parentId }: Checkpoint): Promise<void> {
    const subject = `checkpoint ${id}`;
    const problem = 'its state cannot be read whole: it needs';
    if (parentId === undefined) return this.#add(subject, `${problem} a parent, and has none`);
    if (this.#damaged.has(parentId)) this.#damaged.add(id); // the finding is the parent's
    if (this.#live.has(parentId)) return;
    const row = await this.#attempt(subject, () => this.#context.storage.readCheckpoint(parentId));
    if (row === undefined || row.isDeleted)
      this.#add(
        subject,
        `${problem} its parent ${parentId}, which ${row === undefined ? 'is missing' : 'was deleted'}`,
      );
  }

  #checkChain({ id, parentId, header }: Checkpoint): void {
    if (parentId === undefined) return;
    const found = this.#digests.get(parentId);
    if (found === undefined) this.#add(`checkpoint ${id}`, `its parent ${parentId} is missing`);
    else if (found !== header.parentDigest)
      this.#add(`checkpoint ${id}`, `the chain is broken: its parent ${parentId} is not the one it was saved on`);
  }

  async #checkState({ id, stateDigest }: Checkpoint, readData: boolean): Promise<void> {
    const subject = `checkpoint ${id}`;
    const row = await this.#attempt(subject, () => this.#context.storage.readCheckpoint(id));
    if (row === undefined || row.isDeleted) return;
    if (row.root === undefined) return this.#add(subject, 'the root of its state is missing');
    if (createChunk(row.root).digest !== stateDigest)
      return this.#add(subject, 'the root of its state does not match its digest');
    const absent = readData ? await this.#findUnsound(row.root.refs) : [];
    if (absent.length > 0)
      this.#add(subject, `its state needs ${absent.length} missing or damaged chunks, such as ${absent[0]}`);
  }

  /** Which of these chunks are not whole. Looks again at what was not there before: it may have been committed meanwhile. */
  async #findUnsound(refs: readonly Digest[]): Promise<readonly Digest[]> {
    const unsound = refs.filter((ref) => !this.#isSound(ref));
    const late = unsound.filter((ref) => !this.#lookedAgain.has(ref));
    if (late.length === 0) return unsound;
    for (const digest of late) this.#lookedAgain.add(digest);
    const chunks = await this.#attempt('chunks', () => this.#context.storage.readReachable(late));
    for (const chunk of chunks ?? []) if (this.#isNew(chunk.digest, late)) this.#checkChunk(chunk.digest, chunk);
    this.#isWhole.clear();
    return refs.filter((ref) => !this.#isSound(ref));
  }

  #isNew(digest: Digest, late: readonly Digest[]): boolean {
    return !this.#refs.has(digest) && (late.includes(digest) || !this.#lookedAgain.has(digest));
  }

  /** Whether a chunk and all below it are there and undamaged. */
  #isSound(digest: Digest): boolean {
    const known = this.#isWhole.get(digest);
    if (known !== undefined) return known;
    const refs = this.#refs.get(digest);
    const isWhole = refs?.every((ref) => this.#isSound(ref)) ?? false;
    this.#isWhole.set(digest, isWhole);
    return isWhole;
  }

  async checkSessions(): Promise<void> {
    let after: string | undefined;
    const ends = new Set<string>();
    for (;;) {
      const page = { limit: PAGE, ...(after !== undefined && { after }) };
      const sessions = await this.#attempt('the list of sessions', () => this.#context.storage.listSessions(page));
      if (sessions === undefined || sessions.length === 0) return;
      for (const sessionId of sessions) await this.#checkSession(sessionId);
      after = this.#nextPage('the list of sessions', ends, sessions.at(-1));
      if (after === undefined) return;
    }
  }

  /** Where the next page begins. A damaged index may lead in circles, so no page may end where one has ended before. */
  #nextPage<Key>(subject: string, ends: Set<Key>, last: Key | undefined): Key | undefined {
    if (last === undefined || !ends.has(last)) {
      if (last !== undefined) ends.add(last);
      return last;
    }
    this.#add(subject, 'it leads in circles');
    return undefined;
  }

  async #checkSession(sessionId: string): Promise<void> {
    this.#counts.sessions++;
    const refs = await this.#attempt(`the names of session "${sessionId}"`, () =>
      this.#context.storage.readRefs({ sessionId }),
    );
    for (const ref of refs ?? []) await this.#checkRef(ref);
    const effects = await this.#attempt(`the effects of session "${sessionId}"`, () =>
      this.#context.storage.readEffects({ sessionId }),
    );
    for (const row of effects ?? []) await this.#checkEffect(row);
  }

  async #checkRef(ref: Ref): Promise<void> {
    const subject = `${ref.kind} "${ref.name}" of session "${ref.sessionId}"`;
    const sound = await this.#attempt(subject, async () => checkRef(ref));
    const needsTarget = ref.kind === 'branch' || ref.kind === 'tag' || ref.kind === 'pin';
    if (sound === undefined || !needsTarget || this.#live.has(ref.target)) return;
    const row = await this.#attempt(subject, () => this.#context.storage.readCheckpoint(ref.target as CheckpointId));
    if (row === undefined || row.isDeleted) this.#add(subject, `it points at ${ref.target}, which is not there`);
  }

  async #checkEffect(row: EffectRow): Promise<void> {
    this.#counts.effects++;
    const subject = `effect ${row.ordinal} of branch "${row.branch}" in session "${row.sessionId}"`;
    await this.#attempt(subject, async () => parseEffect(row));
    const absent = this.#refs.size === 0 ? [] : await this.#findUnsound(row.result?.refs ?? []);
    if (absent.length > 0) this.#add(subject, `its result needs ${absent.length} missing or damaged chunks`);
  }

  async #attempt<Result>(subject: string, read: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof SavestateError)) throw error;
      this.#add(subject, messageOf(error));
      return undefined;
    }
  }

  #add(subject: string, problem: string): void {
    this.#findings.push({ subject, problem });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
