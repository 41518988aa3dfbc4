import { ConflictError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { sleep } from '../../core/time/timer.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import { describeCheckpoint, GROUP_TYPE, type SaveOptions } from '../engine/save-options.ts';
import type { Writer } from '../engine/writer.ts';
import { forEachMember } from './each-member.ts';
import { abortCut, type Cut, endingOf, type GroupPlace, isOverdue, openCut } from './group-cut.ts';
import { pinMembers, unpinMembers } from './group-pins.ts';
import { deleteLeftovers, deleteReports, type MemberSave, readReports } from './group-report.ts';
import { createGroupState, type GroupState, type SavedMember } from './group-state.ts';

/** The members that were saved, by name. */
export type MemberSaves = ReadonlyMap<string, MemberSave>;

/** What a cut is to become. */
export type CutPlan = GroupPlace & {
  readonly cut: Cut;
  /** All members, those of this process too, in the order they are recorded in. */
  readonly names: readonly string[];
  readonly said: SaveOptions;
  readonly timeoutMs: number;
  readonly pollMs: number;
};

/** Leads one cut from its opening to its commit or its abort. */
export class CutCoordinator {
  readonly #engine: Engine;
  readonly #writer: Writer;
  readonly #plan: CutPlan;
  readonly #cut: Cut;
  #pinned: readonly SavedMember[] = [];

  constructor(engine: Engine, writer: Writer, plan: CutPlan) {
    this.#engine = engine;
    this.#writer = writer;
    this.#plan = plan;
    this.#cut = plan.cut;
  }

  /** Commits the cut; answers the group checkpoint, or rejects without a trace of one. */
  async run(local: Promise<MemberSaves>): Promise<Checkpoint> {
    try {
      await openCut(this.#engine, this.#cut, this.#plan);
      await deleteLeftovers(this.#engine, this.#cut);
      const saves = new Map([...(await local), ...(await this.#gather())]);
      return await this.#commit(await this.#openMembers(saves));
    } catch (error) {
      return await this.#abort(error);
    } finally {
      // What fails here must not hide how the cut ended; the next cut removes what is left.
      if (this.#cut.members.length > 0) await Promise.allSettled([deleteReports(this.#engine, this.#cut)]);
    }
  }

  /** Waits for the reports of the members in other processes. */
  async #gather(): Promise<MemberSaves> {
    const { said, pollMs } = this.#plan;
    const saves = new Map<string, MemberSave>();
    for (;;) {
      const absent = this.#cut.members.filter((name) => !saves.has(name));
      if (absent.length === 0) return saves;
      const isLast = await isOverdue(this.#engine, this.#cut); // before reading, so that what came in time counts
      const news = await readReports(this.#engine, this.#cut, saves);
      for (const [name, report] of news) {
        if ('failure' in report) throw this.#refusal(`member "${name}" failed: ${report.failure}`);
        saves.set(name, report);
      }
      if (news.length > 0) continue;
      if (isLast) throw this.#refusal(`${absent.join(', ')} did not answer within ${this.#plan.timeoutMs} ms`);
      await sleep(this.#engine.ports, pollMs, said.signal);
    }
  }

  async #openMembers(saves: MemberSaves): Promise<SavedMember[]> {
    const members = this.#plan.names.flatMap((name) => {
      const save = saves.get(name);
      return save === undefined ? [] : [{ name, ...save }];
    });
    return forEachMember(`Group "${this.#cut.groupId}" was not saved.`, members, async (member) => {
      const { checkpoint } = await this.#engine.repository.open(member.checkpointId);
      return { name: member.name, checkpoint, channels: member.channels };
    });
  }

  async #commit(members: readonly SavedMember[]): Promise<Checkpoint> {
    const { branch, parent, said } = this.#plan;
    const { id, groupId: sessionId } = this.#cut;
    const encoded = this.#engine.plainCodec.encode(createGroupState(members));
    const described = {
      ...describeCheckpoint({ ...ownerOf(members), ...said }, this.#engine.codec),
      type: GROUP_TYPE,
    };
    this.#pinned = members;
    await pinMembers(this.#engine, id, members);
    said.signal?.throwIfAborted();
    const place = {
      id,
      sessionId,
      branch,
      parent,
      expect: parent?.id ?? null,
      refs: [endingOf(this.#cut)],
      requires: members.map((member) => member.checkpoint.id),
    };
    const checkpoint = await this.#writer.write(place, {
      described,
      encoded,
      chunks: encoded.chunks,
      isSame: (stored) => this.#isSame(stored, members),
    });
    if (checkpoint.id !== id) await this.#undo(); // it was stored before under the same key: this cut is not needed
    return checkpoint;
  }

  /** Whether a group holds these members with the same states. */
  async #isSame(stored: StoredCheckpoint, members: readonly SavedMember[]): Promise<boolean> {
    const before = (await readState(this.#engine, stored)) as GroupState;
    const states = await forEachMember('The group was not saved.', before.members, async ({ checkpointId }) => {
      return (await this.#engine.open(checkpointId)).stateDigest;
    });
    return (
      JSON.stringify(before.members.map(({ name }, at) => [name, states[at]])) ===
      JSON.stringify(members.map(({ name, checkpoint }) => [name, checkpoint.stateDigest]))
    );
  }

  /** Ends the cut. If it had been committed, and only the answer got lost, that is no failure. */
  async #abort(error: unknown): Promise<Checkpoint> {
    const stored = await this.#undo().catch(() => undefined); // the storage fails: others abort the cut, prune takes the pins
    if (stored !== undefined) return stored;
    const isEnded = isRefused(error, 'moved') && error.details.kind === 'group';
    throw isEnded ? this.#refusal('it was aborted by another process, because its time was up', error) : error;
  }

  async #undo(): Promise<Checkpoint | undefined> {
    await abortCut(this.#engine, this.#cut);
    const stored = await this.#writer.find(this.#cut.id);
    if (stored === undefined) await unpinMembers(this.#engine, this.#cut.id, this.#pinned);
    return stored;
  }

  #refusal(why: string, cause?: unknown): ConflictError {
    const { groupId, id } = this.#cut;
    return new ConflictError(`Group "${groupId}" was not saved: ${why}.`, { details: { groupId, cutId: id }, cause });
  }
}

/** A group whose members are all of one user is that user's, and forgotten with the user. */
function ownerOf(members: readonly SavedMember[]): SaveOptions {
  const [userId, ...others] = new Set(members.map(({ checkpoint }) => checkpoint.userId));
  return userId === undefined || others.length > 0 ? {} : { userId };
}
