import { ClosedError } from '../core/errors.ts';
import { callback, checkValue, string } from '../core/options.ts';
import type { Checkpoint, CheckpointJson } from '../core/record/checkpoint.ts';
import { type CheckpointId, type GivenId, name as nameCheck, parseId, parseSessionId } from '../core/record/id.ts';
import type { CollectResult, StorageStats } from '../storage/contract.ts';
import { WholeCheckpointStorage } from '../storage/whole/whole-storage.ts';
import { type AgentFactory, registerHandle } from './agent/agent.ts';
import { AgentSaving, type RestoreOptions } from './agent/agent-saving.ts';
import { Branching, type ForkOptions } from './branch/branching.ts';
import { type CheckpointComparison, compare } from './branch/compare.ts';
import {
  type BranchHead,
  type CheckpointPage,
  History,
  type ListFilter,
  type ListPage,
  type SessionTree,
} from './branch/history.ts';
import { checkCall, takeNoOptions } from './call-options.ts';
import { dropAllRecordings, dropRecordings } from './effect/recording-drop.ts';
import { Engine } from './engine/engine.ts';
import type { EventHandler, EventName } from './engine/events.ts';
import { type RestoreReport, readState } from './engine/loading.ts';
import type { LineageEntry } from './engine/records.ts';
import type { StoredCheckpoint } from './engine/repository.ts';
import type { SaveOptions } from './engine/save-options.ts';
import { Groups, type SaveGroupOptions } from './group/group.ts';
import type { GroupMember } from './group/group-member.ts';
import type { GroupMembership, JoinOptions } from './group/group-membership.ts';
import type { RestoredGroup, RestoreGroupOptions } from './group/group-restoring.ts';
import type { CheckpointManagerOptions } from './manager-options.ts';
import { type AbandonedOptions, type AbandonedSession, listAbandoned, retryPoisoned } from './recovery/abandoned.ts';
import { RecoveryLoop } from './recovery/recovery-loop.ts';
import type { RecoveryHandler, RecoveryOptions, RecoveryReport } from './recovery/recovery-options.ts';
import { clearUserHistory, deleteSession } from './retention/forgetting.ts';
import { type PruneOptions, type PruneResult, RetentionRunner } from './retention/retention-runner.ts';
import { type Subscription, watchSaves } from './session/remote-saves.ts';
import type { Session, SessionOptions } from './session/session.ts';
import { SessionOpener } from './session/session-opener.ts';
import { exportCheckpoint, exportSession } from './transfer/export.ts';
import { type ImportResult, importSession } from './transfer/import.ts';
import { type VerifyReport, verify } from './verify/verify.ts';

/** Saves, restores, forks, compares and forgets what agents know and have done. One manager serves any number of agents and sessions. */
export class CheckpointManager {
  /** @internal What the rest of this package builds on. */
  readonly engine: Engine;
  readonly #saving: AgentSaving;
  readonly #history: History;
  readonly #branching: Branching;
  readonly #sessions: SessionOpener;
  readonly #groups: Groups;
  readonly #retention: RetentionRunner;
  #isClosed = false;

  static {
    takeNoOptions(CheckpointManager.prototype);
  }

  constructor(options: CheckpointManagerOptions) {
    checkCall(options, 'new CheckpointManager()');
    this.engine = Engine.open(options);
    this.#retention = RetentionRunner.open(this.engine, options.retention);
    this.#history = new History(this.engine);
    this.#branching = new Branching(this.engine);
    this.#sessions = new SessionOpener(this.engine, this.#branching);
    this.#saving = new AgentSaving(this.engine, this.#sessions, options.agents);
    this.#groups = new Groups({ engine: this.engine, saving: this.#saving }, this.#branching);
    registerHandle(this);
  }

  // Saving and restoring

  /** Saves an agent or a state, on top of what was saved of it before. Resolves when the checkpoint is durable. */
  async save(
    agentOrState: unknown,
    options: SaveOptions & { readonly sessionId?: string | undefined } = {},
  ): Promise<CheckpointId> {
    this.#checkOpen();
    checkCall(options, 'save()');
    return this.#saving.save(agentOrState, options);
  }

  /**
   * Brings a checkpoint back: into a live agent, a new one from a factory or a registered type, or, if it was saved
   * from plain data, as that data. Saving it afterwards goes on from there, in a new branch if history had moved on.
   */
  async restore<Agent = unknown>(idOrPrefix: string, options: RestoreOptions = {}): Promise<Agent> {
    checkCall(options, 'restore()');
    return (await this.#saving.restore(await this.#open(idOrPrefix), options)) as Agent;
  }

  /** What the restore of this agent could not put back. */
  reportOf(agent: object): RestoreReport | undefined {
    return this.#saving.reportOf(agent);
  }

  /** Lets `restore` make agents of this type by itself. */
  registerAgent(agentType: string, factory: AgentFactory): void {
    this.#saving.registerAgent(agentType, factory);
  }

  /** Opens a session: resumes it at its head if it exists, begins it otherwise. */
  async session(sessionId: string, options: SessionOptions = {}): Promise<Session> {
    this.#checkOpen();
    checkCall(options, 'session()');
    const { storage } = this.engine;
    if (storage instanceof WholeCheckpointStorage) await storage.checkSession(parseSessionId(sessionId));
    return this.#sessions.open(sessionId, options);
  }

  // Recovering

  /** Goes on with sessions whose leases lapsed: claims each for one worker and hands it to the handler, oldest first. */
  async recoverAbandoned(handler: RecoveryHandler, options: RecoveryOptions = {}): Promise<RecoveryReport> {
    this.#checkOpen();
    checkCall(options, 'recoverAbandoned()');
    checkValue(handler, callback, 'The handler of recoverAbandoned()');
    return new RecoveryLoop(this.engine, this.#sessions, { ...options, handler }).run();
  }

  /** The sessions that are up for recovery now, or poisoned; touches nothing. */
  async abandoned(options: AbandonedOptions = {}): Promise<AbandonedSession[]> {
    this.#checkOpen();
    checkCall(options, 'abandoned()');
    return listAbandoned(this.engine, options);
  }

  /** Gives a poisoned session another round of attempts. */
  async retryPoisoned(sessionId: string, branch?: string): Promise<void> {
    this.#checkOpen();
    const id = parseSessionId(sessionId);
    if (branch !== undefined) checkValue(branch, nameCheck, 'The branch of retryPoisoned()');
    await retryPoisoned(this.engine, {
      sessionId: id,
      branch: branch ?? (await this.currentBranch(id)),
    });
  }

  // Groups

  /**
   * Saves several agents as one: all of them are in the group checkpoint this answers, or there is none. The states of members in this
   * process are read before this gives way; members in other processes are given by name and take part through `joinGroup`.
   */
  async saveGroup(members: readonly GroupMember[], options: SaveGroupOptions): Promise<Checkpoint> {
    this.#checkOpen();
    checkCall(options, 'saveGroup()');
    return this.#groups.save(members, options);
  }

  /** Brings the members of a group checkpoint back, all or none; answers them with the messages that were under way to them. */
  async restoreGroup(idOrPrefix: string, options: RestoreGroupOptions = {}): Promise<RestoredGroup> {
    this.#checkOpen();
    checkCall(options, 'restoreGroup()');
    await this.engine.settled();
    return this.#groups.restore(idOrPrefix, options);
  }

  /** Lets an agent of this process take part, under a name, in the group checkpoints that any process makes of the group. */
  async joinGroup(groupId: string, name: string, options: JoinOptions): Promise<GroupMembership> {
    this.#checkOpen();
    checkCall(options, 'joinGroup()');
    return this.#groups.join(groupId, name, options);
  }

  // Looking

  /** The state of a checkpoint, as new plain data that is the caller's own. */
  async load(idOrPrefix: string): Promise<unknown> {
    return readState(this.engine, await this.#open(idOrPrefix));
  }

  /** A checkpoint without its state, by its id or a unique prefix of it; throws a NotFoundError if there is none. */
  async open(idOrPrefix: string): Promise<Checkpoint> {
    return (await this.#open(idOrPrefix)).checkpoint;
  }

  /** A checkpoint without its state; undefined if there is none with exactly this id. */
  async get(id: string): Promise<Checkpoint | undefined> {
    this.#checkOpen();
    checkValue(id, string, 'A checkpoint id');
    await this.engine.settled();
    const row = await this.engine.storage.readCheckpoint(id as CheckpointId);
    return row === undefined || row.isDeleted ? undefined : (await this.engine.repository.open(row.id)).checkpoint;
  }

  /** The newest checkpoint that fits. */
  async latest(filter: ListFilter = {}): Promise<Checkpoint | undefined> {
    checkCall(filter, 'a filter of checkpoints');
    return this.#history.latest(filter);
  }

  /** The newest checkpoints of a user, 50 unless a limit is given. */
  async listByUser(
    userId: GivenId,
    page: { readonly limit?: number | undefined; readonly offset?: number | undefined } = {},
  ): Promise<readonly Checkpoint[]> {
    checkCall(page, 'listByUser()');
    return (await this.#history.list({ userId: parseId(userId, 'A user id') }, page)).checkpoints;
  }

  async list(filter: ListFilter = {}, page: ListPage = {}): Promise<CheckpointPage> {
    checkCall(filter, 'a filter of checkpoints');
    checkCall(page, 'list()');
    return this.#history.list(filter, page);
  }

  async tree(sessionId: string): Promise<SessionTree> {
    return this.#history.tree(sessionId);
  }

  async children(idOrPrefix: string): Promise<Checkpoint[]> {
    return this.#history.children(idOrPrefix);
  }

  async pathToRoot(idOrPrefix: string): Promise<LineageEntry[]> {
    return this.#history.pathToRoot(idOrPrefix);
  }

  /** The branch that `session()` opens when none is named: `main`, until a rewind or switch makes another one current. */
  async currentBranch(sessionId: string): Promise<string> {
    this.#checkOpen();
    return this.engine.currentBranch(parseSessionId(sessionId));
  }

  async branches(sessionId: string): Promise<BranchHead[]> {
    return this.#history.branches(sessionId);
  }

  /** How the second checkpoint differs from the first. */
  async compare(before: string, after: string): Promise<CheckpointComparison> {
    return compare(this.engine, before, after);
  }

  // Branching and naming

  async fork(idOrPrefix: string, options: ForkOptions = {}): Promise<BranchHead> {
    checkCall(options, 'fork()');
    return this.#branching.fork(idOrPrefix, options);
  }

  async rewind(idOrPrefix: string, options: ForkOptions = {}): Promise<BranchHead> {
    checkCall(options, 'rewind()');
    return this.#branching.rewind(idOrPrefix, options);
  }

  async switchBranch(sessionId: string, branch: string): Promise<void> {
    await this.#branching.switchBranch(sessionId, branch);
  }

  async deleteBranch(sessionId: string, branch: string): Promise<void> {
    await this.#branching.deleteBranch(sessionId, branch);
  }

  async tag(idOrPrefix: string, name: string): Promise<CheckpointId> {
    return this.#branching.tag(idOrPrefix, name);
  }

  async untag(sessionId: string, name: string): Promise<void> {
    await this.#branching.untag(sessionId, name);
  }

  async tags(sessionId: string): Promise<{ readonly name: string; readonly checkpointId: CheckpointId }[]> {
    return this.#branching.tags(sessionId);
  }

  async pin(idOrPrefix: string): Promise<CheckpointId> {
    return this.#branching.pin(idOrPrefix);
  }

  async unpin(idOrPrefix: string): Promise<void> {
    await this.#branching.unpin(idOrPrefix);
  }

  // Forgetting

  /** Notes that the operation behind a `pre_operation` checkpoint completed; retention may drop it now. */
  async completeOperation(idOrPrefix: string): Promise<void> {
    await this.#branching.mark(idOrPrefix, 'completed', this.#retention);
  }

  /** Notes that a `recovery` checkpoint is not needed any more; retention may drop it now. */
  async clearRecovery(idOrPrefix: string): Promise<void> {
    await this.#branching.mark(idOrPrefix, 'cleared', this.#retention);
  }

  /** Applies the retention policy, or another one, to everything or to one session; with `dryRun` only says what it would do and why. */
  async prune(given: PruneOptions = {}): Promise<PruneResult> {
    this.#checkOpen();
    checkCall(given, 'prune()');
    return this.#retention.prune(given);
  }

  /** Deletes checkpoints older than this, except what is protected; answers how many. */
  async cleanupOldCheckpoints(options: { readonly maxAgeDays: number }): Promise<number> {
    checkCall(options, 'cleanupOldCheckpoints()');
    return (await this.prune({ policy: { maxAgeDays: options.maxAgeDays } })).deleted.length;
  }

  /** Deletes everything of a user; answers how many checkpoints that were. */
  async clearUserHistory(userId: GivenId): Promise<number> {
    return clearUserHistory(this.engine, parseId(userId, 'A user id'));
  }

  /**
   * Deletes one checkpoint, of a group also its members, unless a branch, tag or pin protects it; returns whether it was. One that
   * another needs is refused.
   */
  async delete(idOrPrefix: string, options: { readonly reason?: string | undefined } = {}): Promise<boolean> {
    checkCall(options, 'delete()');
    const { checkpoint } = await this.#open(idOrPrefix);
    return this.#retention.delete(checkpoint, options.reason);
  }

  /** Deletes a session with all that is in it. */
  async deleteSession(sessionId: string): Promise<boolean> {
    return deleteSession(this.engine, sessionId, this.#retention);
  }

  /** Drops the results of steps that no kept checkpoint goes on from, in a session or all; answers how many. `gc` frees their space. */
  async dropRecordings(sessionId?: string): Promise<number> {
    this.#checkOpen();
    if (sessionId === undefined) return dropAllRecordings(this.engine);
    return dropRecordings(this.engine, parseSessionId(sessionId));
  }

  /** Removes chunks that nothing needs any more and gives the space back. */
  async gc(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<CollectResult> {
    checkCall(options, 'gc()');
    await this.engine.settled();
    return this.engine.storage.collect(options.signal === undefined ? {} : { signal: options.signal });
  }

  // Trusting

  /** Checks everything that is stored and names what is damaged. */
  async verify(options: { readonly readData?: boolean | undefined } = {}): Promise<VerifyReport> {
    this.#checkOpen();
    checkCall(options, 'verify()');
    return verify(this.engine, options);
  }

  async stats(): Promise<StorageStats> {
    await this.engine.settled();
    return this.engine.storage.stats();
  }

  /** A session as one self-contained stream of lines; write it to a file with `writeFile(path, manager.exportSession(id))`. */
  exportSession(sessionId: string): AsyncGenerator<string> {
    return exportSession(this.engine, sessionId);
  }

  /** Reads what `exportSession` wrote, checking all of it. */
  async importSession(source: AsyncIterable<string | Uint8Array>): Promise<ImportResult> {
    this.#checkOpen();
    return importSession(this.engine, source);
  }

  /** One checkpoint with its whole state, as JSON for people to read. */
  async exportCheckpoint(idOrPrefix: string): Promise<CheckpointJson> {
    return exportCheckpoint(this.engine, idOrPrefix);
  }

  /** Calls a handler after each such event; answers how to stop. */
  on<Name extends EventName>(
    event: Name,
    handler: EventHandler<Name>,
    options?: { readonly await?: boolean | undefined; readonly from?: 'here' | undefined },
  ): () => void;
  /** Calls a handler also for what other processes save, on a storage that can tell. */
  on(
    event: 'checkpoint_saved',
    handler: EventHandler<'checkpoint_saved'>,
    options: { readonly await?: boolean | undefined; readonly from: 'everywhere' },
  ): Subscription;
  on<Name extends EventName>(
    event: Name,
    handler: EventHandler<Name>,
    options: { readonly await?: boolean | undefined; readonly from?: 'here' | 'everywhere' | undefined } = {},
  ): () => void {
    checkCall(options, 'on()');
    if (options.from !== 'everywhere') return this.engine.events.on(event, handler, options);
    this.#checkOpen();
    return watchSaves(this.engine, handler as EventHandler<'checkpoint_saved'>, options);
  }

  /** Waits for saves under way, then closes the sessions and the storage. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    try {
      await this.#groups.close();
      await this.#sessions.closeAll();
      await this.engine.settled();
    } finally {
      await this.engine.storage.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(idOrPrefix: string): Promise<StoredCheckpoint> {
    this.#checkOpen();
    await this.engine.settled();
    return this.engine.repository.open(idOrPrefix);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('This CheckpointManager was closed.');
  }
}
