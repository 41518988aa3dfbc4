import { withCallSite } from '../core/call-site.ts';
import { ClosedError, hasErrorCode } from '../core/errors.ts';
import type { Checkpoint, CheckpointJson } from '../core/record/checkpoint.ts';
import { type CheckpointId, type GivenId, parseId, parseSessionId } from '../core/record/id.ts';
import type { CollectResult, StorageStats } from '../storage/contract.ts';
import { WholeCheckpointStorage } from '../storage/whole/whole-storage.ts';
import { registerHandle } from './agent/agent.ts';
import { AgentSaving, type RestoreOptions } from './agent/agent-saving.ts';
import type { ForkedBranch, ForkOptions } from './branch/branching.ts';
import * as branching from './branch/branching.ts';
import { type CheckpointComparison, compare } from './branch/compare.ts';
import type { BranchHead, CheckpointPage, ListFilter, ListPage, SessionTree } from './branch/history.ts';
import * as history from './branch/history.ts';
import type { CheckpointManagerOptions } from './call-options.ts';
import { checkCall, takeNoOptions, WITHOUT_OPTIONS } from './call-options.ts';
import { dropAllRecordings, dropRecordings } from './effect/recording-drop.ts';
import { Engine } from './engine/engine.ts';
import type { EventHandler, EventName } from './engine/events.ts';
import { createReport, findLeftOutSecrets, type RestoreReport, readState } from './engine/loading.ts';
import type { LineageEntry } from './engine/records.ts';
import type { StoredCheckpoint } from './engine/repository.ts';
import type { SaveOptions } from './engine/save-options.ts';
import { Groups } from './group/group.ts';
import { deleteSession, type ForgottenUser, forgetUser } from './retention/forgetting.ts';
import { type PruneOptions, type PruneResult, RetentionRunner } from './retention/retention-runner.ts';
import { findRevision, type Revision } from './revision/revision.ts';
import { openSession, Session, type SessionHost } from './session/session.ts';
import { exportCheckpoint, exportSession } from './transfer/export.ts';
import type { ImportResult } from './transfer/import.ts';
import type { VerifyReport } from './verify/verify.ts';
import { type Subscription, watchSaves } from './write/remote-saves.ts';
import { SessionOpener } from './write/session-opener.ts';
import type { SessionOptions, StateSchema } from './write/session-options.ts';

/** Saves, restores, forks, compares and forgets what agents know and have done. One manager serves any number of agents and sessions. */
export class CheckpointManager {
  /** @internal What the rest of this package builds on. */
  readonly engine: Engine;
  readonly #saving: AgentSaving;
  readonly #sessions: SessionOpener;
  /** @internal What opens sessions. */
  readonly host: SessionHost;
  /** @internal What `Workers` needs. */
  readonly groups: Groups;
  readonly #retention: RetentionRunner;
  #isClosed = false;

  static {
    takeNoOptions(CheckpointManager.prototype, WITHOUT_OPTIONS);
  }

  constructor(options: CheckpointManagerOptions) {
    checkCall(options, 'new CheckpointManager()');
    this.engine = Engine.open(options);
    this.engine.finishing.replacement = async (...given) =>
      (await import('./transfer/replace-session.ts')).finishReplacement(...given);
    this.#retention = RetentionRunner.open(this.engine, options.retention);
    this.#sessions = new SessionOpener(this.engine);
    this.host = { engine: this.engine, sessions: this.#sessions, retention: this.#retention };
    this.#saving = new AgentSaving(this.engine, this.#sessions, options.agents);
    this.groups = new Groups(this.#saving);
    registerHandle(this);
  }

  // Saving and restoring

  /** Saves an agent or a state, on top of what was saved of it before. Resolves when the checkpoint is durable. */
  async save(
    agentOrState: unknown,
    options: SaveOptions & { readonly sessionId?: string | undefined } = {},
  ): Promise<CheckpointId> {
    this.checkOpen();
    checkCall(options, 'save()');
    return withCallSite(this.#saving.save(agentOrState, options));
  }

  /**
   * Brings a checkpoint back: into a live agent, a new one from a factory or a registered type, or, if it was saved
   * from plain data, as that data. Saving it afterwards goes on from there, in a new branch if history had
   * moved on; that branch is current from then on.
   */
  restore<Agent extends object>(
    revision: Revision,
    options: RestoreOptions<Agent> &
      (
        | Required<Pick<RestoreOptions<Agent>, 'into'>>
        | Required<Pick<RestoreOptions<Agent>, 'factory'>>
        | Required<Pick<RestoreOptions<Agent>, 'as'>>
      ),
  ): Promise<Agent>;
  /** The same for plain data, or a registered type that the caller knows. */
  restore<State = unknown>(revision: Revision, options?: RestoreOptions): Promise<NoInfer<State>>;
  async restore(revision: Revision, options: RestoreOptions = {}): Promise<unknown> {
    checkCall(options, 'restore()');
    return this.#saving.restore(await this.#open(revision), options);
  }

  /** What the restore of this agent could not put back, or which secrets the state of this session lacks; and what migrated it. */
  reportOf(agent: object): RestoreReport | undefined {
    if (agent instanceof Session && agent.head !== undefined)
      return createReport(agent.head.id, findLeftOutSecrets(agent.state), agent.migratedThrough);
    return this.#saving.reportOf(agent);
  }

  /** @internal Whether an object was saved or restored here. */
  knows(agent: object): boolean {
    return this.#saving.knows(agent);
  }

  /**
   * Opens a session: resumes it at its head if it exists, begins it otherwise. A schema checks the state that is loaded and gives it its
   * type; without `initial` a session that does not exist is then refused.
   */
  session<State>(
    sessionId: string,
    options: SessionOptions<NoInfer<State>> & { readonly schema: StateSchema<State> },
  ): Promise<Session<State>>;
  /** Opens a session whose state has a type of the caller's: it begins with `initial`. */
  session<State>(
    sessionId: string,
    options: SessionOptions<State> & { readonly initial: State },
  ): Promise<Session<State>>;
  /** Opens a session whose state may be anything: undefined before its first save. */
  session(sessionId: string, options?: SessionOptions): Promise<Session>;
  async session<State>(sessionId: string, options: SessionOptions<State> = {}): Promise<Session<State>> {
    this.checkOpen();
    checkCall(options, 'session()');
    const { storage } = this.engine;
    if (storage instanceof WholeCheckpointStorage) await storage.checkSession(parseSessionId(sessionId));
    return openSession(this.host, { sessionId }, options);
  }

  // Looking

  /** The state of a checkpoint, as new plain data that is the caller's own. */
  async load<State = unknown>(revision: Revision): Promise<NoInfer<State>> {
    return (await readState(this.engine, await this.#open(revision))) as NoInfer<State>;
  }

  /** A checkpoint without its state; throws a NotFoundError if there is none. */
  async open(revision: Revision): Promise<Checkpoint> {
    return (await this.#open(revision)).checkpoint;
  }

  /** A checkpoint without its state; undefined if there is none. */
  async get(revision: Revision): Promise<Checkpoint | undefined> {
    try {
      return await this.open(revision);
    } catch (error) {
      if (hasErrorCode(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  /** The newest checkpoint that fits. */
  async latest(filter: ListFilter = {}): Promise<Checkpoint | undefined> {
    checkCall(filter, 'a filter of checkpoints');
    return (await history.list(this.engine, filter, { limit: 1 })).checkpoints[0];
  }

  /** The newest checkpoints of a user, 50 unless a limit is given. */
  async listByUser(
    userId: GivenId,
    page: { readonly limit?: number | undefined; readonly offset?: number | undefined } = {},
  ): Promise<readonly Checkpoint[]> {
    checkCall(page, 'listByUser()');
    return (await history.list(this.engine, { userId: parseId(userId, 'A user id') }, page)).checkpoints;
  }

  /** A page of checkpoints of all sessions, newest first unless the page says otherwise, that fit the filter. */
  async list(filter: ListFilter = {}, page: ListPage = {}): Promise<CheckpointPage> {
    checkCall(filter, 'a filter of checkpoints');
    checkCall(page, 'list()');
    return history.list(this.engine, filter, page);
  }

  /** All checkpoints of a session with their children, roots and leaves; deleted ones keep their place. */
  async tree(sessionId: string): Promise<SessionTree> {
    return history.tree(this.engine, sessionId);
  }

  /** The checkpoints that were saved on top of this one, oldest first. */
  async children(revision: Revision): Promise<Checkpoint[]> {
    return history.children(this.engine, await this.#find(revision));
  }

  /** The checkpoint and all it goes back to, newest first; deleted ones keep their place. */
  async pathToRoot(revision: Revision): Promise<LineageEntry[]> {
    return history.pathToRoot(this.engine, await this.#find(revision));
  }

  /** The branch that `session()` opens when none is named: `main`, until a rewind or switch makes another one current. */
  async currentBranch(sessionId: string): Promise<string> {
    this.checkOpen();
    return this.engine.currentBranch(parseSessionId(sessionId));
  }

  /** The branches of a session, each with its head. */
  async branches(sessionId: string): Promise<BranchHead[]> {
    return history.branches(this.engine, sessionId);
  }

  /** How the second checkpoint differs from the first. */
  async compare(before: Revision, after: Revision): Promise<CheckpointComparison> {
    return compare(this.engine, await this.#find(before), await this.#find(after));
  }

  // Branching and naming

  /** Makes a branch at a checkpoint, without opening a session on it. */
  async fork<State = unknown>(revision: Revision, options: ForkOptions<State> = {}): Promise<ForkedBranch> {
    checkCall(options, 'fork()');
    return withCallSite(branching.fork(this.engine, await this.#find(revision), options));
  }

  /** Makes a branch at an ancestor of the current one, and makes it current: the next `session()` opens it. */
  async rewind<State = unknown>(revision: Revision, options: ForkOptions<State> = {}): Promise<ForkedBranch> {
    checkCall(options, 'rewind()');
    return withCallSite(branching.rewind(this.engine, await this.#find(revision), options));
  }

  /** Makes another branch the current one: the next `session(id)` opens it. */
  async switchBranch(sessionId: string, branch: string): Promise<void> {
    await branching.switchBranch(this.engine, sessionId, branch);
  }

  /** Removes the name of a branch; its checkpoints stay until retention drops them. The current one is refused. */
  async deleteBranch(sessionId: string, branch: string): Promise<void> {
    await branching.deleteBranch(this.engine, sessionId, branch);
  }

  /** Names a checkpoint. A tag does not move, and protects what it names from retention. */
  async tag(revision: Revision, name: string): Promise<CheckpointId> {
    return branching.tag(this.engine, await this.#find(revision), name);
  }

  /** Removes a tag; the checkpoint stays. */
  async untag(sessionId: string, name: string): Promise<void> {
    await branching.untag(this.engine, sessionId, name);
  }

  /** The tags of a session, each with its checkpoint. */
  async tags(sessionId: string): Promise<{ readonly name: string; readonly checkpointId: CheckpointId }[]> {
    return branching.tags(this.engine, sessionId);
  }

  /** Protects a checkpoint from retention. */
  async pin(revision: Revision): Promise<CheckpointId> {
    return branching.pin(this.engine, await this.#find(revision));
  }

  /** Takes the protection of `pin` away. */
  async unpin(revision: Revision): Promise<void> {
    await branching.unpin(this.engine, await this.#find(revision));
  }

  // Forgetting

  /** Notes that the operation behind a `pre_operation` checkpoint completed; retention may drop it now. */
  async completeOperation(revision: Revision): Promise<void> {
    await branching.mark(this.engine, await this.#find(revision), { as: 'completed', retention: this.#retention });
  }

  /** Notes that a `recovery` checkpoint is not needed any more; retention may drop it now. */
  async clearRecovery(revision: Revision): Promise<void> {
    await branching.mark(this.engine, await this.#find(revision), { as: 'cleared', retention: this.#retention });
  }

  /** Applies the retention policy, or another one, to everything or to one session; with `dryRun` only says what it would do and why. */
  async prune(given: PruneOptions = {}): Promise<PruneResult> {
    this.checkOpen();
    checkCall(given, 'prune()');
    return this.#retention.prune(given);
  }

  /** Deletes checkpoints older than this, except what is protected; returns how many. */
  async cleanupOldCheckpoints(options: { readonly maxAgeDays: number }): Promise<number> {
    checkCall(options, 'cleanupOldCheckpoints()');
    return (await this.prune({ policy: { maxAgeDays: options.maxAgeDays } })).deleted.length;
  }

  /** Deletes everything of a user, as `forgetUser` does; returns how many checkpoints that were. */
  async clearUserHistory(userId: GivenId): Promise<number> {
    return (await this.forgetUser(userId)).checkpoints;
  }

  /**
   * Deletes everything of a user: checkpoints, sessions, and the memories of each `Memory` that is open with this manager. Returns what
   * that was, and which checkpoints of others may still hold the user's words; with `dryRun` nothing is deleted.
   */
  async forgetUser(userId: GivenId, options: { readonly dryRun?: boolean } = {}): Promise<ForgottenUser> {
    checkCall(options, 'forgetUser()');
    return forgetUser(this.engine, parseId(userId, 'A user id'), options.dryRun ?? false);
  }

  /**
   * Deletes one checkpoint, of a group also its members, unless a branch, tag or pin protects it; returns whether it was. One that
   * another needs is refused.
   */
  async delete(revision: Revision, options: { readonly reason?: string | undefined } = {}): Promise<boolean> {
    checkCall(options, 'delete()');
    const { checkpoint } = await this.#open(revision);
    return this.#retention.delete(checkpoint, options.reason);
  }

  /** Deletes a session with all that is in it. */
  async deleteSession(sessionId: string): Promise<boolean> {
    return deleteSession(this.engine, sessionId, this.#retention);
  }

  /** Drops the steps that no kept checkpoint goes on from, in a session or all; returns how many. `gc` frees their space. */
  async dropRecordings(sessionId?: string): Promise<number> {
    this.checkOpen();
    if (sessionId === undefined) return dropAllRecordings(this.engine);
    return dropRecordings(this.engine, parseSessionId(sessionId));
  }

  /** Removes chunks that nothing needs any more and gives the space back. */
  async gc(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<CollectResult> {
    checkCall(options, 'gc()');
    return this.#retention.collect(options.signal);
  }

  // Trusting

  /** Checks everything that is stored and names what is damaged. */
  async verify(options: { readonly readData?: boolean | undefined } = {}): Promise<VerifyReport> {
    this.checkOpen();
    checkCall(options, 'verify()');
    const { verify } = await import('./verify/verify.ts');
    return verify(this.engine, options);
  }

  /** How many checkpoints, chunks and sessions there are, and how many bytes they take. */
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
    this.checkOpen();
    const { importSession } = await import('./transfer/import.ts');
    return importSession(this.engine, source);
  }

  /** One checkpoint with its whole state, as JSON for people to read. */
  async exportCheckpoint(revision: Revision): Promise<CheckpointJson> {
    return exportCheckpoint(this.engine, await this.#find(revision));
  }

  /** Calls a handler after each such event; returns how to stop. */
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
    this.checkOpen();
    return watchSaves(this.engine, { event, handler: handler as EventHandler<'checkpoint_saved'> }, options);
  }

  /** Waits for saves under way, then closes the sessions and the storage. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    try {
      await this.groups.close();
      await this.#sessions.closeAll();
      await this.engine.settled();
    } finally {
      await this.engine.storage.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(revision: Revision): Promise<StoredCheckpoint> {
    this.checkOpen();
    await this.engine.settled();
    return this.engine.repository.open(await this.#find(revision));
  }

  async #find(revision: Revision): Promise<string> {
    return findRevision(this.engine, revision);
  }

  /** @internal Throws a ClosedError once this was closed. */
  checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('This CheckpointManager was closed.');
  }
}
