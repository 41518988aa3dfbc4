import { ConflictError, hasErrorCode, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { AgentSaving } from '../agent/agent-saving.ts';
import { fork, switchBranch } from '../branch/branching.ts';
import type { Engine } from '../engine/engine.ts';
import { settleImport } from '../engine/import-claim.ts';
import { readState } from '../engine/loading.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import { describeCheckpoint, GROUP_TYPE, type SaveOptions } from '../engine/save-options.ts';
import type { Writer } from '../engine/writer.ts';
import { readClock } from '../lease/lease-refs.ts';
import {
  abortCut,
  type Cut,
  deleteLeftovers,
  deleteReports,
  endingOf,
  isOverdue,
  type MemberSave,
  openCut,
  readReports,
} from './cut.ts';
import { type GroupMember, parseMembers, saveMember } from './group-member.ts';
import { DEFAULT_POLL_MS, GroupMembership, type JoinOptions } from './group-membership.ts';
import { pinMembers, unpinMembers } from './group-pins.ts';
import { type RestoredGroup, type RestoreGroupOptions, restoreGroup } from './group-restoring.ts';
import { createGroupState, forEachMember, type GroupState, type SavedMember } from './group-state.ts';

/** How a group is saved. */
export type SaveGroupOptions = Omit<SaveOptions, 'type' | 'agentId' | 'agentType'> & {
  /** The session that the group's checkpoints are in. */
  readonly groupId: string;
  /** When the cut is aborted if members of other processes have not answered; default 30,000. */
  readonly timeoutMs?: number | undefined;
  /** How often to look for answers; default 200. */
  readonly pollMs?: number | undefined;
};

type MemberSaves = ReadonlyMap<string, MemberSave>;

type GroupPlace = { readonly branch: string; readonly parent: Checkpoint | undefined };

/** What a cut is to become: a checkpoint of all members, in the order of their names. */
type GroupPlan = Pick<Cut, 'groupId' | 'members'> & {
  readonly names: readonly string[];
  /** What the members of this process saved. */
  readonly saves: Promise<MemberSaves>;
  readonly said: SaveOptions;
  readonly timeoutMs: number;
  readonly pollMs: number;
};

/** Long enough for an agent to come to a stop between two steps. */
const DEFAULT_TIMEOUT_MS = 30_000;

/** Saves several agents as one consistent cut, and brings them back together. */
export class Groups {
  readonly #engine: Engine;
  readonly #saving: AgentSaving;
  readonly #memberships = new Set<GroupMembership>();
  /** Groups that were restored and not saved since: the next save goes on there. */
  readonly #restored = new Map<SessionId, Checkpoint>();

  constructor(saving: AgentSaving) {
    this.#engine = saving.engine;
    this.#saving = saving;
  }

  /**
   * Saves the members as one cut. The states of those in this process are read before this first awaits, and stored once it is known that
   * the session can be a group's.
   */
  async save(members: readonly GroupMember[], options: SaveGroupOptions): Promise<Checkpoint> {
    const { groupId: given, timeoutMs = DEFAULT_TIMEOUT_MS, pollMs = DEFAULT_POLL_MS, ...said } = options;
    const groupId = parseSessionId(given);
    const names = parseMembers(members, groupId);
    said.signal?.throwIfAborted();
    const underWay = { sinceMs: this.#engine.ports.now() };
    this.#engine.cuts.add(underWay); // from now on retention leaves alone what is saved
    const ready = this.#readHead(groupId);
    const saves = this.#saveLocal(groupId, members, { after: ready, ...keyOfMembers(groupId, said.idempotencyKey) });
    const saved = Promise.allSettled([saves]);
    const cut = async (writer: Writer): Promise<Checkpoint> => {
      try {
        await ready;
        const others = members.filter((member) => typeof member === 'string');
        return await this.#cut(writer, { groupId, members: others, names, saves, said, timeoutMs, pollMs });
      } finally {
        await saved; // also if the cut failed before: nothing goes on behind the caller's back
        this.#engine.cuts.delete(underWay);
      }
    };
    return this.#engine.write(cut, { sessionId: groupId });
  }

  /** All states are read here, in one go and before anything is awaited: that is what makes the cut one moment. */
  async #saveLocal(groupId: SessionId, members: readonly GroupMember[], said: SaveOptions): Promise<MemberSaves> {
    const local = members.filter((member) => typeof member !== 'string');
    const saves = await forEachMember(`Group "${groupId}" was not saved.`, local, async (member) => {
      const options = { ...said, ...member.options };
      return [member.name, await saveMember(this.#saving, { ...member, options })] as const;
    });
    return new Map(saves);
  }

  /** Makes the cut; again, if retention ended the group's session before the cut was open. */
  async #cut(writer: Writer, plan: GroupPlan): Promise<Checkpoint> {
    const { groupId, members, timeoutMs } = plan;
    for (;;) {
      const place = await this.#findPlace(groupId);
      const id = this.#engine.ports.nextId(place.parent?.id);
      const cut = { groupId, members, id, deadlineMs: (await readClock(this.#engine)) + timeoutMs };
      try {
        return await new CutCoordinator(this.#engine, writer, { ...plan, ...place, cut }).run();
      } catch (error) {
        if (place.parent === undefined || !hasErrorCode(error, 'CONFLICT')) throw error;
        if ((await this.#engine.storage.readRefs({ sessionId: groupId })).length > 0) throw error;
      }
    }
  }

  /** Where the group's history goes on: at its current head, or at what was restored, in a new branch if that is no head. */
  async #findPlace(groupId: SessionId): Promise<GroupPlace> {
    const head = await this.#readHead(groupId);
    if (head.parent === undefined && (await settleImport(this.#engine, groupId))) return this.#findPlace(groupId);
    const restored = this.#restored.get(groupId);
    this.#restored.delete(groupId);
    if (restored === undefined || restored.id === head.parent?.id) return head;
    const row = await this.#engine.storage.readCheckpoint(restored.id);
    if (row === undefined || row.isDeleted) return head; // it was deleted since
    const { branch } = await fork(this.#engine, restored.id);
    await switchBranch(this.#engine, groupId, branch);
    return { branch, parent: restored };
  }

  /** Throws an InvalidInputError if the session is another one than a group's. */
  async #readHead(groupId: SessionId): Promise<GroupPlace> {
    const branch = await this.#engine.currentBranch(groupId);
    const headId = await this.#engine.headOf(groupId, branch);
    let parent: Checkpoint | undefined;
    try {
      parent = headId === undefined ? undefined : await this.#engine.open(headId);
    } catch (error) {
      const isMoved = hasErrorCode(error, 'NOT_FOUND') && (await this.#engine.headOf(groupId, branch)) !== headId;
      if (!isMoved) throw error;
      return this.#readHead(groupId); // retention ended the session meanwhile
    }
    if (parent !== undefined && parent.type !== GROUP_TYPE)
      throw new InvalidInputError(
        `Session "${groupId}" is not a group: its checkpoint ${parent.id} is of type "${parent.type}". Choose another groupId.`,
        { details: { groupId } },
      );
    return { branch, parent };
  }

  /** Brings a group back, all members or none. */
  async restore(idOrPrefix: string, options: RestoreGroupOptions): Promise<RestoredGroup> {
    const restored = await restoreGroup(this.#saving, idOrPrefix, options);
    if (options.only === undefined) this.#restored.set(restored.checkpoint.sessionId, restored.checkpoint);
    return restored;
  }

  /** Lets a member of this process take part in the cuts that any process makes of its group. */
  join(groupId: string, name: string, options: JoinOptions): GroupMembership {
    const place = { groupId: parseSessionId(groupId), name: parseName(name, 'A member name') };
    const membership = new GroupMembership(this.#saving, place, options);
    const forget = () => void this.#memberships.delete(membership);
    this.#memberships.add(membership);
    membership.ended.then(forget, forget);
    return membership;
  }

  /** Ends all memberships. */
  async close(): Promise<void> {
    await Promise.all([...this.#memberships].map((membership) => membership.close()));
  }
}

/** With the group's key a member is saved once, too; and one with another state is refused before anything of it is stored. */
function keyOfMembers(groupId: SessionId, key: string | undefined): SaveOptions {
  return key === undefined ? {} : { idempotencyKey: `group:${digestText(JSON.stringify([groupId, key]))}` };
}

/** Leads one cut from its opening to its commit or its abort. */
class CutCoordinator {
  readonly #engine: Engine;
  readonly #writer: Writer;
  readonly #plan: GroupPlan & GroupPlace;
  readonly #cut: Cut;
  #pinned: readonly SavedMember[] = [];

  constructor(engine: Engine, writer: Writer, { cut, ...plan }: GroupPlan & GroupPlace & { readonly cut: Cut }) {
    this.#engine = engine;
    this.#writer = writer;
    this.#plan = plan;
    this.#cut = cut;
  }

  /** Commits the cut; returns the group checkpoint, or rejects without a trace of one. */
  async run(): Promise<Checkpoint> {
    const { branch, parent, saves: local } = this.#plan;
    const headId = parent?.id ?? null;
    try {
      await openCut(this.#engine, this.#cut, { kind: 'branch', name: branch, expect: headId, target: headId });
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
    const { said, pollMs, timeoutMs } = this.#plan;
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
      if (isLast) throw this.#refusal(`${absent.join(', ')} did not answer within ${timeoutMs} ms`);
      await sleep(this.#engine.ports, pollMs, said.signal);
    }
  }

  async #openMembers(saves: MemberSaves): Promise<SavedMember[]> {
    const members = this.#plan.names.flatMap((name) => {
      const save = saves.get(name);
      return save === undefined ? [] : [{ name, ...save }];
    });
    return forEachMember(`Group "${this.#cut.groupId}" was not saved.`, members, async (member) => {
      const { name, checkpointId, channels } = member;
      return { name, checkpoint: await this.#engine.open(checkpointId), channels };
    });
  }

  async #commit(members: readonly SavedMember[]): Promise<Checkpoint> {
    const { branch, parent, said } = this.#plan;
    const { id, groupId: sessionId } = this.#cut;
    const { codec, plainCodec } = this.#engine;
    const encoded = plainCodec.encode(createGroupState(members));
    const described = { ...describeCheckpoint({ ...ownerOf(members), ...said }, codec), type: GROUP_TYPE };
    this.#pinned = members;
    await pinMembers(this.#engine, id, members);
    said.signal?.throwIfAborted();
    const requires = members.map((member) => member.checkpoint.id);
    const expect = parent?.id ?? null;
    const place = { id, sessionId, branch, parent, expect, refs: [endingOf(this.#cut)], requires };
    const isSame = (stored: StoredCheckpoint) => this.#isSame(stored, members);
    const checkpoint = await this.#writer.write(place, { described, encoded, chunks: encoded.chunks, isSame });
    if (checkpoint.id !== id) await this.#undo(); // it was stored before under the same key: this cut is not needed
    return checkpoint;
  }

  /** Whether a group holds these members with the same states. */
  async #isSame(stored: StoredCheckpoint, members: readonly SavedMember[]): Promise<boolean> {
    const before = (await readState(this.#engine, stored)) as GroupState;
    const states = await forEachMember('The group was not saved.', before.members, async ({ name, checkpointId }) => {
      return [name, (await this.#engine.open(checkpointId)).stateDigest];
    });
    return (
      JSON.stringify(states) === JSON.stringify(members.map(({ name, checkpoint }) => [name, checkpoint.stateDigest]))
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
