import { messageOf, SavestateError, withoutAdvice } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { createChunk, type Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, EffectRow, Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { countMissing, readDropped } from '../effect/effect-refs.ts';
import type { Engine } from '../engine/engine.ts';
import { parseRow, parseTombstone } from '../engine/records.ts';
import { ChunkSurvey } from './chunk-survey.ts';

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
  engine: Engine,
  { readData = true }: { readData?: boolean | undefined } = {},
): Promise<VerifyReport> {
  await engine.settled();
  const verification = new Verification(engine);
  await verification.checkBackend();
  if (readData) await verification.checkChunks();
  await verification.checkCheckpoints();
  await verification.checkSessions();
  return verification.report();
}

/** What is remembered of a checkpoint or tombstone. */
type Known = { readonly digest: Digest; readonly sessionId: SessionId; readonly isDeleted: boolean };

/** So many checkpoints are remembered, however many there are; others are read again. */
const MAX_RECENT = 20_000;

class Verification {
  readonly #engine: Engine;
  readonly #findings: VerifyFinding[] = [];
  /** The last ones that were read: most parents are among them. */
  readonly #recent = new Map<CheckpointId, Known>();
  readonly #damaged = new Set<CheckpointId>();
  readonly #breather = new Breather();
  /** Absent if the data is not read. */
  #chunks: ChunkSurvey | undefined;
  #counts = { checkpoints: 0, tombstones: 0, effects: 0, sessions: 0 };

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  report(): VerifyReport {
    return {
      status: this.#findings.length === 0 ? 'clean' : 'damaged',
      ...this.#counts,
      chunks: this.#chunks?.size ?? 0,
      findings: this.#findings,
      damagedCheckpoints: [...this.#damaged],
    };
  }

  async checkBackend(): Promise<void> {
    for (const problem of await this.#engine.storage.checkIntegrity())
      this.#add(`${this.#engine.storage.kind} storage`, problem);
  }

  async checkChunks(): Promise<void> {
    const { storage, codec } = this.#engine;
    this.#chunks = new ChunkSurvey(storage, codec.limits, (subject, problem) => this.#add(subject, problem));
    await this.#chunks.readAll();
  }

  async checkCheckpoints(): Promise<void> {
    let after: CheckpointId | undefined;
    const ends = new Set<CheckpointId>();
    for (;;) {
      const page = {
        order: 'oldest' as const,
        include: 'all' as const,
        limit: PAGE,
        ...(after !== undefined && { after }),
      };
      const rows = await this.#attempt('the list of checkpoints', () => this.#engine.storage.listCheckpoints(page));
      if (rows === undefined || rows.length === 0) return;
      for (const row of rows) await this.#checkRow(row);
      after = this.#nextPage('the list of checkpoints', ends, rows.at(-1)?.id);
      if (after === undefined) return;
    }
  }

  async #checkRow(row: CheckpointRow): Promise<void> {
    await this.#breather.breathe();
    this.#remember(row);
    if (row.isDeleted) {
      this.#counts.tombstones++;
      await this.#attempt(`tombstone ${row.id}`, async () => parseTombstone(row));
      return;
    }
    this.#counts.checkpoints++;
    const before = this.#findings.length;
    const checkpoint = await this.#attempt(`checkpoint ${row.id}`, async () => parseRow(row));
    if (checkpoint !== undefined) await this.#checkState(checkpoint);
    if (checkpoint?.header.needsParent === true) await this.#checkNeed(checkpoint);
    if (this.#findings.length > before) this.#damaged.add(row.id);
    if (checkpoint !== undefined) await this.#checkChain(checkpoint); // a broken chain is damage, but the state can be restored
  }

  #remember({ id, digest, sessionId, isDeleted }: CheckpointRow): void {
    this.#recent.set(id, { digest, sessionId, isDeleted });
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MAX_RECENT && oldest !== undefined) this.#recent.delete(oldest);
  }

  async #find(subject: string, id: CheckpointId): Promise<Known | undefined> {
    return this.#recent.get(id) ?? (await this.#attempt(subject, () => this.#engine.storage.readCheckpoint(id)));
  }

  /** Parents come first, so what is wrong with this one's is known. */
  async #checkNeed({ id, parentId }: Checkpoint): Promise<void> {
    const subject = `checkpoint ${id}`;
    const problem = 'its state cannot be read whole: it needs';
    if (parentId === undefined) return this.#add(subject, `${problem} a parent, and has none`);
    if (this.#damaged.has(parentId)) this.#damaged.add(id); // the finding is the parent's
    const row = await this.#find(subject, parentId);
    if (row === undefined || row.isDeleted)
      this.#add(
        subject,
        `${problem} its parent ${parentId}, which ${row === undefined ? 'is missing' : 'was deleted'}`,
      );
  }

  async #checkChain({ id, parentId, header }: Checkpoint): Promise<void> {
    if (parentId === undefined) return;
    const subject = `checkpoint ${id}`;
    const found = await this.#find(subject, parentId);
    if (found === undefined) this.#add(subject, `its parent ${parentId} is missing`);
    else if (found.digest !== header.parentDigest)
      this.#add(subject, `the chain is broken: its parent ${parentId} is not the one it was saved on`);
  }

  async #checkState({ id, stateDigest }: Checkpoint): Promise<void> {
    const subject = `checkpoint ${id}`;
    const row = await this.#attempt(subject, () => this.#engine.storage.readCheckpoint(id));
    if (row === undefined || row.isDeleted) return;
    if (row.root === undefined) return this.#add(subject, 'the root of its state is missing');
    if (createChunk(row.root).digest !== stateDigest)
      return this.#add(subject, 'the root of its state does not match its digest');
    const problem = await this.#chunks?.findProblem(row.root);
    if (problem !== undefined) this.#add(subject, `its state ${problem}`);
  }

  async checkSessions(): Promise<void> {
    let after: string | undefined;
    const ends = new Set<string>();
    for (;;) {
      const page = { limit: PAGE, ...(after !== undefined && { after }) };
      const sessions = await this.#attempt('the list of sessions', () => this.#engine.storage.listSessions(page));
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
      this.#engine.storage.readRefs({ sessionId }),
    );
    for (const ref of refs ?? []) await this.#checkRef(ref);
    const effects = await this.#attempt(`the effects of session "${sessionId}"`, () =>
      this.#engine.storage.readEffects({ sessionId }),
    );
    for (const row of effects ?? []) await this.#checkEffect(row);
    if (effects === undefined) return;
    const logs = groupBy(effects, ({ branch }) => branch);
    for (const ref of refs ?? []) if (ref.kind === 'log') await this.#checkLog(ref, logs.get(ref.name) ?? []);
  }

  /** Every effect up to the mark must be there that was not dropped, unless the branch was given up meanwhile. */
  async #checkLog({ sessionId, name, target }: Ref, log: readonly EffectRow[]): Promise<void> {
    const before = Number(target);
    if (countMissing(log, { from: 0, before }) === 0) return;
    const subject = `the effects of branch "${name}" in session "${sessionId}"`;
    const refs = await this.#attempt(subject, () => this.#engine.storage.readRefs({ sessionId }));
    if (refs !== undefined && !refs.some((ref) => ref.kind === 'log' && ref.name === name)) return;
    const from = readDropped(refs ?? [])(name);
    const missing = countMissing(log, { from, before });
    if (missing === 0) return;
    const dropped = from === 0 ? '' : `, the first ${from} of which were dropped`;
    const found = before - from - missing;
    this.#add(
      subject,
      `it recorded ${before} effects${dropped}, and ${found} of ${from === 0 ? 'them' : 'the others'} are there`,
    );
  }

  async #checkRef(ref: Ref): Promise<void> {
    await this.#breather.breathe();
    const subject = `${ref.kind} "${ref.name}" of session "${ref.sessionId}"`;
    const sound = await this.#attempt(subject, async () => checkRef(ref));
    const needsTarget = ref.kind === 'branch' || ref.kind === 'tag' || ref.kind === 'pin';
    if (sound === undefined || !needsTarget) return;
    const row = await this.#find(subject, ref.target as CheckpointId);
    if (row === undefined || row.isDeleted) this.#add(subject, `it points at ${ref.target}, which is not there`);
    else if (row.sessionId !== ref.sessionId)
      this.#add(subject, `it points at ${ref.target}, which is of session "${row.sessionId}"`);
  }

  async #checkEffect(row: EffectRow): Promise<void> {
    await this.#breather.breathe();
    this.#counts.effects++;
    const subject = `effect ${row.ordinal} of branch "${row.branch}" in session "${row.sessionId}"`;
    await this.#attempt(subject, async () => parseEffect(row));
    if (row.result === undefined) return;
    const problem = await this.#chunks?.findProblem(row.result);
    if (problem !== undefined) this.#add(subject, `its result ${problem}`);
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
    this.#findings.push({ subject, problem: withoutAdvice(problem) });
  }
}
