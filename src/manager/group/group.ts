import { hasErrorCode, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { AgentSaving } from '../agent/agent-saving.ts';
import type { Branching } from '../branch/branching.ts';
import type { Engine } from '../engine/engine.ts';
import { settleImport } from '../engine/import-claim.ts';
import { GROUP_TYPE, type SaveOptions } from '../engine/save-options.ts';
import type { Writer } from '../engine/writer.ts';
import { readClock } from '../lease/lease-refs.ts';
import { CutCoordinator, type CutPlan, type MemberSaves } from './cut-coordinator.ts';
import { forEachMember } from './each-member.ts';
import type { GroupPlace } from './group-cut.ts';
import { type GroupMember, parseMembers, saveMember } from './group-member.ts';
import { DEFAULT_POLL_MS, GroupMembership, type JoinOptions } from './group-membership.ts';
import { GroupRestoring, type RestoredGroup, type RestoreGroupOptions } from './group-restoring.ts';

/** How a group is saved. */
export type SaveGroupOptions = Omit<SaveOptions, 'type' | 'agentId' | 'agentType'> & {
  /** The session that the group's checkpoints are in. */
  readonly groupId: string;
  /** When the cut is aborted if members of other processes have not answered; default 30,000. */
  readonly timeoutMs?: number | undefined;
  /** How often to look for answers; default 200. */
  readonly pollMs?: number | undefined;
};

type GroupParts = {
  readonly saving: AgentSaving;
  readonly branching: Branching;
};

type GroupPlan = Pick<CutPlan, 'names' | 'said' | 'timeoutMs' | 'pollMs'> & {
  readonly groupId: SessionId;
  readonly members: readonly GroupMember[];
};

/** Long enough for an agent to come to a stop between two steps. */
const DEFAULT_TIMEOUT_MS = 30_000;

/** Saves several agents as one consistent cut, and brings them back together. */
export class Groups {
  readonly #engine: Engine;
  readonly #parts: GroupParts;
  readonly #memberships = new Set<GroupMembership>();
  /** Groups that were restored and not saved since: the next save goes on there. */
  readonly #restored = new Map<SessionId, Checkpoint>();

  constructor(engine: Engine, parts: GroupParts) {
    this.#engine = engine;
    this.#parts = parts;
  }

  /** Saves the members as one cut. The states of those in this process are read before this gives way. */
  async save(members: readonly GroupMember[], options: SaveGroupOptions): Promise<Checkpoint> {
    const { groupId, timeoutMs = DEFAULT_TIMEOUT_MS, pollMs = DEFAULT_POLL_MS, ...said } = options;
    const id = parseSessionId(groupId);
    const names = parseMembers(members, id);
    said.signal?.throwIfAborted();
    const underWay = { sinceMs: this.#engine.ports.now() };
    this.#engine.cuts.add(underWay); // from now on retention leaves alone what is saved
    const saves = this.#saveLocal(id, members, said.idempotencyKey);
    const saved = Promise.allSettled([saves]);
    const plan = { groupId: id, names, members, said, timeoutMs, pollMs };
    const cut = async (writer: Writer): Promise<Checkpoint> => {
      try {
        return await this.#cut(writer, plan, saves);
      } finally {
        await saved; // also if the cut failed before: nothing goes on behind the caller's back
        this.#engine.cuts.delete(underWay);
      }
    };
    return this.#engine.write(cut, { sessionId: id });
  }

  /** Makes the cut; again, if retention ended the group's session before the cut was open. */
  async #cut(writer: Writer, plan: GroupPlan, saves: Promise<MemberSaves>): Promise<Checkpoint> {
    const { groupId, members, timeoutMs } = plan;
    for (;;) {
      const place = await this.#findPlace(groupId);
      const cut = {
        groupId,
        id: this.#engine.ports.nextId(place.parent?.id),
        members: members.filter((member) => typeof member === 'string'),
        deadlineMs: (await readClock(this.#engine)) + timeoutMs,
      };
      try {
        return await new CutCoordinator(this.#engine, writer, { ...plan, cut, ...place }).run(saves);
      } catch (error) {
        if (place.parent === undefined || !hasErrorCode(error, 'CONFLICT') || !(await this.#isDeleted(groupId)))
          throw error;
      }
    }
  }

  async #isDeleted(sessionId: SessionId): Promise<boolean> {
    return (await this.#engine.storage.readRefs({ sessionId })).length === 0;
  }

  /** All states are read here, in one go and before anything is awaited: that is what makes the cut one moment. */
  async #saveLocal(groupId: SessionId, members: readonly GroupMember[], key: string | undefined): Promise<MemberSaves> {
    // With the group's key a member is saved once, too; and one with another state is refused before anything of it is stored.
    const idempotencyKey = key === undefined ? undefined : `group:${digestText(JSON.stringify([groupId, key]))}`;
    const parts = { engine: this.#engine, saving: this.#parts.saving };
    const local = members.filter((member) => typeof member !== 'string');
    const saves = await forEachMember(`Group "${groupId}" was not saved.`, local, async (member) => {
      const options = { ...(idempotencyKey !== undefined && { idempotencyKey }), ...member.options };
      return [member.name, await saveMember(parts, member.name, { ...member, options })] as const;
    });
    return new Map(saves);
  }

  /** Where the group's history goes on: at its current head, or at what was restored, in a new branch if that is no head. */
  async #findPlace(groupId: SessionId): Promise<GroupPlace> {
    const head = await this.#readHead(groupId);
    const restored = this.#restored.get(groupId);
    this.#restored.delete(groupId);
    if (restored === undefined || restored.id === head.parent?.id) return head;
    const row = await this.#engine.storage.readCheckpoint(restored.id);
    if (row === undefined || row.isDeleted) return head; // it was deleted since
    const { branch } = await this.#parts.branching.fork(restored.id);
    await this.#parts.branching.switchBranch(groupId, branch);
    return { branch, parent: restored };
  }

  async #readHead(groupId: SessionId): Promise<GroupPlace> {
    const { repository } = this.#engine;
    const branch = await this.#engine.currentBranch(groupId);
    const headId = await repository.readRef(groupId, 'branch', branch);
    if (headId === undefined && (await settleImport(this.#engine, groupId))) return this.#readHead(groupId);
    const parent = headId === undefined ? undefined : (await repository.open(headId)).checkpoint;
    if (parent !== undefined && parent.type !== GROUP_TYPE)
      throw new InvalidInputError(
        `Session "${groupId}" is not a group: its checkpoint ${parent.id} is of type "${parent.type}". Choose another groupId.`,
        { details: { groupId } },
      );
    return { branch, parent };
  }

  /** Brings a group back, all members or none. */
  async restore(idOrPrefix: string, options: RestoreGroupOptions): Promise<RestoredGroup> {
    const restored = await new GroupRestoring(this.#engine, this.#parts.saving).restore(idOrPrefix, options);
    if (options.only === undefined) this.#restored.set(restored.checkpoint.sessionId, restored.checkpoint);
    return restored;
  }

  /** Lets a member of this process take part in the cuts that any process makes of its group. */
  join(groupId: string, name: string, options: JoinOptions): GroupMembership {
    const place = { groupId: parseSessionId(groupId), name: parseName(name, 'A member name') };
    const membership = new GroupMembership({ engine: this.#engine, saving: this.#parts.saving }, place, options);
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
