import { addTo } from '../../core/group-by.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';

/** A verdict names no more reasons of one kind than this. */
export const MAX_REASONS = 20;

type Members = ReadonlyMap<CheckpointId, readonly CheckpointId[]>;

/** Which of the judged checkpoints are group checkpoints, and which belong to them. */
export class GroupTies {
  readonly #members = new Map<CheckpointId, readonly CheckpointId[]>();
  readonly #sessions = new Map<CheckpointId, SessionId>();
  readonly #groups = new Map<CheckpointId, CheckpointId[]>();
  /** The groups of a checkpoint that are not judged. */
  readonly #outside = new Map<CheckpointId, CheckpointId[]>();
  /** Sessions that hold members of groups of other sessions. */
  readonly #holding = new Map<SessionId, CheckpointId[]>();

  constructor(judged: readonly CheckpointHeader[], groups: Members = new Map()) {
    if (groups.size === 0) return;
    for (const { id, sessionId } of judged) this.#sessions.set(id, sessionId);
    for (const [groupId, members] of groups) this.#add(groupId, members);
  }

  #add(groupId: CheckpointId, members: readonly CheckpointId[]): void {
    const session = this.#sessions.get(groupId);
    if (session === undefined) for (const id of members) addTo(this.#outside, id, groupId);
    else this.#tie(groupId, session, members);
  }

  #tie(groupId: CheckpointId, session: SessionId, members: readonly CheckpointId[]): void {
    const judged = members.filter((id) => this.#sessions.has(id));
    this.#members.set(groupId, judged);
    for (const id of judged) addTo(this.#groups, id, groupId);
    for (const other of this.sessionsOfMembers(groupId)) if (other !== session) addTo(this.#holding, other, groupId);
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  isGroup(id: CheckpointId): boolean {
    return this.#members.has(id);
  }

  /** The groups that a checkpoint is part of and that are judged with it. */
  of(id: CheckpointId): readonly CheckpointId[] {
    return this.#groups.get(id) ?? [];
  }

  /** The others: nobody can say here whether they go. */
  outside(id: CheckpointId): readonly CheckpointId[] {
    return this.#outside.get(id) ?? [];
  }

  membersOf(id: CheckpointId): readonly CheckpointId[] {
    return this.#members.get(id) ?? [];
  }

  sessionsOfMembers(id: CheckpointId): SessionId[] {
    return [...new Set(this.membersOf(id).flatMap((member) => this.#sessions.get(member) ?? []))];
  }

  sessionOf(id: CheckpointId): SessionId | undefined {
    return this.#sessions.get(id);
  }

  /** The groups of other sessions with members in this one. */
  holding(sessionId: SessionId): readonly CheckpointId[] {
    return this.#holding.get(sessionId) ?? [];
  }

  /** These and the groups they are part of, oldest first. */
  withGroups(ids: ReadonlySet<CheckpointId>): CheckpointId[] {
    return [...new Set([...ids, ...[...ids].flatMap((id) => this.of(id))])].sort();
  }
}
