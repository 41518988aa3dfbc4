import { callback, checkValue } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { name as nameCheck, parseSessionId } from '../../core/record/id.ts';
import { checkCall, takeNoOptions } from '../call-options.ts';
import type { CheckpointManager } from '../checkpoint-manager.ts';
import { engineOf } from '../engine/engine.ts';
import type { SaveGroupOptions } from '../group/group.ts';
import type { GroupMember } from '../group/group-member.ts';
import type { GroupMembership, JoinOptions } from '../group/group-membership.ts';
import type { RestoredGroup, RestoreGroupOptions } from '../group/group-restoring.ts';
import { type AbandonedOptions, type AbandonedSession, listAbandoned, retryPoisoned } from '../recovery/abandoned.ts';
import { RecoveryLoop } from '../recovery/recovery-loop.ts';
import type { RecoveryHandler, RecoveryOptions, RecoveryReport } from '../recovery/recovery-options.ts';
import { findRevision, type Revision } from '../revision/revision.ts';

/** What several processes on one storage do together: take over sessions whose process died, and save agents as one. */
export class Workers {
  readonly #manager: CheckpointManager;

  static {
    takeNoOptions(Workers.prototype, ['retryPoisoned']);
  }

  constructor(manager: CheckpointManager) {
    engineOf(manager);
    this.#manager = manager;
  }

  /** Goes on with sessions whose leases lapsed: claims each for one worker and hands it to the handler, oldest first. */
  async recoverAbandoned(handler: RecoveryHandler, options: RecoveryOptions = {}): Promise<RecoveryReport> {
    const { engine, host } = this.#open();
    checkCall(options, 'recoverAbandoned()');
    checkValue(handler, callback, 'The handler of recoverAbandoned()');
    return new RecoveryLoop(engine, host, { ...options, handler }).run();
  }

  /** The sessions that are up for recovery now, or poisoned; touches nothing. */
  async abandoned(options: AbandonedOptions = {}): Promise<AbandonedSession[]> {
    const { engine } = this.#open();
    checkCall(options, 'abandoned()');
    return listAbandoned(engine, options);
  }

  /** Gives a poisoned session another round of attempts. */
  async retryPoisoned(sessionId: string, branch?: string): Promise<void> {
    const { engine } = this.#open();
    const id = parseSessionId(sessionId);
    if (branch !== undefined) checkValue(branch, nameCheck, 'The branch of retryPoisoned()');
    await retryPoisoned(engine, { sessionId: id, branch: branch ?? (await engine.currentBranch(id)) });
  }

  /**
   * Saves several agents as one: all of them are in the group checkpoint this returns, or there is none. The states of members in this
   * process are read before this returns; members in other processes are given by name and take part through `joinGroup`.
   */
  async saveGroup(members: readonly GroupMember[], options: SaveGroupOptions): Promise<Checkpoint> {
    const { groups } = this.#open();
    checkCall(options, 'saveGroup()');
    return groups.save(members, options);
  }

  /** Brings the members of a group checkpoint back, all or none; returns them with the messages that were under way to them. */
  async restoreGroup(revision: Revision, options: RestoreGroupOptions = {}): Promise<RestoredGroup> {
    const { engine, groups } = this.#open();
    checkCall(options, 'restoreGroup()');
    await engine.settled();
    return groups.restore(await findRevision(engine, revision), options);
  }

  /** Lets an agent of this process take part, under a name, in the group checkpoints that any process makes of the group. */
  async joinGroup(groupId: string, name: string, options: JoinOptions): Promise<GroupMembership> {
    const { groups } = this.#open();
    checkCall(options, 'joinGroup()');
    return groups.join(groupId, name, options);
  }

  #open(): CheckpointManager {
    this.#manager.checkOpen();
    return this.#manager;
  }
}
