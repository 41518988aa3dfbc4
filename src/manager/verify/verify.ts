import { hasErrorCode, isForgotten } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type ChunkContent, createChunk, type Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, EffectRow, Ref } from '../../storage/contract.ts';
import { checkRef, isProtecting } from '../../storage/ref.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { countMissing, readDropped } from '../effect/effect-refs.ts';
import { isCutOff } from '../engine/cut-off.ts';
import type { Engine } from '../engine/engine.ts';
import { parseRow, parseTombstone } from '../engine/records.ts';
import { ChunkSurvey, Findings, FORGOTTEN, type VerifyFinding } from './chunk-survey.ts';

/** A session of which something cannot be read because its key was removed; `checkpoints` of them cannot be restored. */
export type ForgottenSession = { readonly sessionId: SessionId; readonly checkpoints: number };

/**
 * What a verification saw. `damagedCheckpoints` cannot be restored; all others can, except those of `forgotten` sessions: their keys were
 * removed, which is no damage, and `deleteSession` takes the rest of them away. With such sessions and no damage the status is `forgotten`.
 */
export type VerifyReport = {
  readonly status: 'clean' | 'forgotten' | 'damaged';
  readonly checkpoints: number;
  readonly tombstones: number;
  readonly chunks: number;
  readonly effects: number;
  readonly sessions: number;
  readonly findings: readonly VerifyFinding[];
  readonly damagedCheckpoints: readonly CheckpointId[];
  readonly forgotten: readonly ForgottenSession[];
};

/** Checks every record, chain, head and effect, and, if `readData`, every chunk; names what is damaged and what that affects. Without the keys of an encrypted storage nothing can be checked: that is a KeyError. */
export async function verify(
  engine: Engine,
  { readData = true }: { readData?: boolean | undefined } = {},
): Promise<VerifyReport> {
  await engine.settled();
  try {
    await engine.repository.checkKeys();
  } catch (error) {
    if (hasErrorCode(error, 'KEY')) throw error; // what else is wrong is among the findings
  }
  return new Verification(engine).run(readData);
}

/** Says of a record that it cannot be read, which was noted. */
const UNREADABLE = Symbol('unreadable');
type Unread = typeof FORGOTTEN | typeof UNREADABLE;

const isUnread = (found: unknown): found is Unread => typeof found === 'symbol';

type Known = { readonly digest: Digest; readonly sessionId: SessionId; readonly isDeleted: boolean };

/** So many checkpoints are remembered, however many there are; others are read again. */
const MAX_RECENT = 20_000;

function statusOf({ all, forgotten }: Findings): VerifyReport['status'] {
  if (all.length > 0) return 'damaged';
  return forgotten.size > 0 ? 'forgotten' : 'clean';
}

class Verification {
  readonly #engine: Engine;
  readonly #findings = new Findings();
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

  async run(readData: boolean): Promise<VerifyReport> {
    const { storage, codec } = this.#engine;
    const findings = this.#findings;
    for (const problem of await storage.checkIntegrity()) findings.add(`${storage.kind} storage`, problem);
    if (readData) {
      this.#chunks = new ChunkSurvey(storage, codec.limits, findings);
      await this.#chunks.readAll();
    }
    const list = (page: { limit: number; after?: CheckpointId }) =>
      storage.listCheckpoints({ ...page, order: 'oldest', include: 'all' });
    for await (const rows of findings.pages('the list of checkpoints', list, ({ id }) => id))
      for (const row of rows) await this.#checkRow(row);
    const onDamaged = (problem: string) => findings.add('the list of sessions', problem);
    const listSessions = (page: { limit: number; after?: SessionId }) => storage.listSessions({ ...page, onDamaged });
    for await (const sessions of findings.pages('the list of sessions', listSessions, (id) => id))
      for (const sessionId of sessions) await this.#checkSession(sessionId);
    await this.#countForgotten();
    return {
      status: statusOf(findings),
      ...this.#counts,
      chunks: this.#chunks?.size ?? 0,
      findings: findings.all,
      damagedCheckpoints: [...this.#damaged],
      forgotten: [...findings.forgotten].map(([sessionId, checkpoints]) => ({ sessionId, checkpoints })),
    };
  }

  /** Those that lists leave out. */
  async #countForgotten(): Promise<void> {
    const count = () => this.#engine.storage.countForgotten?.({});
    const counts = await this.#findings.attempt('the list of checkpoints', count);
    for (const { sessionId, forgotten } of counts ?? []) this.#findings.forget(sessionId, forgotten);
  }

  async #checkRow(row: CheckpointRow): Promise<void> {
    await this.#breather.breathe();
    const { id, digest, sessionId, isDeleted } = row;
    keepRecent(this.#recent, [id, { digest, sessionId, isDeleted }], MAX_RECENT);
    if (row.isDeleted) {
      this.#counts.tombstones++;
      await this.#findings.attempt(`tombstone ${row.id}`, () => parseTombstone(row));
      return;
    }
    this.#counts.checkpoints++;
    const { length } = this.#findings.all;
    const checkpoint = await this.#findings.attempt(`checkpoint ${row.id}`, () => parseRow(row));
    if (checkpoint !== undefined) await this.#checkState(checkpoint);
    if (checkpoint?.header.needsParent === true) await this.#checkNeed(checkpoint);
    if (this.#findings.all.length > length) this.#damaged.add(row.id);
    if (checkpoint !== undefined) await this.#checkChain(checkpoint); // a broken chain is damage, but the state can be restored
  }

  /** Of a session; whether it is there at all, also if its key was removed. */
  async #find(subject: string, id: CheckpointId, of: SessionId): Promise<Known | Unread | undefined> {
    const known = this.#recent.get(id);
    if (known !== undefined) return known;
    try {
      return await this.#engine.storage.readCheckpoint(id);
    } catch (error) {
      this.#findings.note(subject, error, of);
      return isForgotten(error) ? FORGOTTEN : UNREADABLE;
    }
  }

  /** Parents come first, so what is wrong with this one's is known. */
  async #checkNeed({ id, parentId, sessionId }: Checkpoint): Promise<void> {
    const subject = `checkpoint ${id}`;
    const problem = 'its state cannot be read whole: it needs';
    if (parentId === undefined) return this.#findings.add(subject, `${problem} a parent, and has none`);
    if (this.#damaged.has(parentId)) this.#damaged.add(id); // the finding is the parent's
    const row = await this.#find(subject, parentId, sessionId);
    if (row === FORGOTTEN) return this.#findings.forget(sessionId, 1);
    if (row === UNREADABLE) return;
    const absent = row === undefined ? 'is missing' : 'was deleted';
    if (row?.isDeleted !== false) this.#findings.add(subject, `${problem} its parent ${parentId}, which ${absent}`);
  }

  async #checkChain({ id, parentId, sessionId, header }: Checkpoint): Promise<void> {
    if (parentId === undefined) return;
    const subject = `checkpoint ${id}`;
    const found = await this.#find(subject, parentId, sessionId);
    if (isUnread(found)) return;
    if (found === undefined) this.#findings.add(subject, `its parent ${parentId} is missing`);
    else if (found.digest !== header.parentDigest)
      this.#findings.add(subject, `the chain is broken: its parent ${parentId} is not the one it was saved on`);
  }

  async #checkState({ id, sessionId, stateDigest }: Checkpoint): Promise<void> {
    const subject = `checkpoint ${id}`;
    const read = () => this.#engine.storage.readCheckpoint(id);
    const row = await this.#findings.attempt(subject, read, sessionId);
    if (row === undefined || row.isDeleted) return;
    const { root } = row;
    if (root === undefined) this.#findings.add(subject, 'the root of its state is missing');
    else if (createChunk(root).digest !== stateDigest)
      this.#findings.add(subject, 'the root of its state does not match its digest');
    else if ((await this.#checkData(subject, 'state', root)) === FORGOTTEN) this.#findings.forget(sessionId, 1);
  }

  async #checkData(subject: string, what: string, root: ChunkContent): Promise<typeof FORGOTTEN | undefined> {
    const problem = await this.#chunks?.findProblem(root);
    if (typeof problem === 'string') this.#findings.add(subject, `its ${what} ${problem}`);
    return problem === FORGOTTEN ? problem : undefined;
  }

  async #checkSession(sessionId: SessionId): Promise<void> {
    this.#counts.sessions++;
    const { storage } = this.#engine;
    const subjects = (what: string) => `the ${what} of session "${sessionId}"`;
    const refs = await this.#findings.attempt(subjects('names'), () => storage.readRefs({ sessionId }), sessionId);
    await this.#checkNamed(sessionId, refs);
    for (const ref of refs ?? []) await this.#checkRef(ref);
    const readEffects = () => storage.readEffects({ sessionId });
    const effects = await this.#findings.attempt(subjects('effects'), readEffects, sessionId);
    for (const row of effects ?? []) await this.#checkEffect(row);
    if (effects === undefined) return;
    const logs = groupBy(effects, ({ branch }) => branch);
    for (const ref of refs ?? []) if (ref.kind === 'log') await this.#checkLog(ref, logs.get(ref.name) ?? []);
  }

  async #checkNamed(sessionId: SessionId, refs: readonly Ref[] | undefined): Promise<void> {
    if (refs?.length !== 0) return;
    const problem = 'it has checkpoints and no names: a backup or copy to this storage was cut off. Repeat that one.';
    if (await isCutOff(this.#engine.storage, sessionId)) this.#findings.add(`session "${sessionId}"`, problem);
  }

  /** Every effect up to the mark must be there that was not dropped, unless the branch was given up meanwhile. */
  async #checkLog({ sessionId, name, target }: Ref, log: readonly EffectRow[]): Promise<void> {
    const before = Number(target);
    if (countMissing(log, { from: 0, before }) === 0) return;
    const subject = `the effects of branch "${name}" in session "${sessionId}"`;
    const refs = await this.#findings.attempt(subject, () => this.#engine.storage.readRefs({ sessionId }));
    if (!refs?.some((ref) => ref.kind === 'log' && ref.name === name)) return;
    const from = readDropped(refs)(name);
    const missing = countMissing(log, { from, before });
    if (missing === 0) return;
    const [dropped, these] = from === 0 ? ['', 'them'] : [`, the first ${from} of which were dropped`, 'the others'];
    const found = before - from - missing;
    this.#findings.add(subject, `it recorded ${before} effects${dropped}, and ${found} of ${these} are there`);
  }

  async #checkRef(ref: Ref): Promise<void> {
    await this.#breather.breathe();
    const subject = `${ref.kind} "${ref.name}" of session "${ref.sessionId}"`;
    const sound = await this.#findings.attempt(subject, () => checkRef(ref));
    if (sound === undefined || !isProtecting(ref.kind)) return;
    const row = await this.#find(subject, ref.target as CheckpointId, ref.sessionId);
    if (isUnread(row)) return;
    if (row?.isDeleted !== false) this.#findings.add(subject, `it points at ${ref.target}, which is not there`);
    else if (row.sessionId !== ref.sessionId)
      this.#findings.add(subject, `it points at ${ref.target}, which is of session "${row.sessionId}"`);
  }

  async #checkEffect(row: EffectRow): Promise<void> {
    await this.#breather.breathe();
    this.#counts.effects++;
    const subject = `effect ${row.ordinal} of branch "${row.branch}" in session "${row.sessionId}"`;
    await this.#findings.attempt(subject, () => parseEffect(row));
    if (row.result !== undefined && (await this.#checkData(subject, 'result', row.result)) === FORGOTTEN)
      this.#findings.forget(row.sessionId);
  }
}
