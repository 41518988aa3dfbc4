import type { Checkpoint, CheckpointJson } from '../core/checkpoint.ts';
import { ClosedError, InvalidInputError } from '../core/errors.ts';
import { type CheckpointId, parseName, parseSessionId, type SessionId } from '../core/id.ts';
import { StateCodec } from '../core/state-codec.ts';
import type { ChunkStorage, CollectResult, StorageStats } from '../storage/contract.ts';
import { isCheckpointStorage } from '../storage/whole/checkpoint-storage.ts';
import { WholeCheckpointStorage } from '../storage/whole/whole-storage.ts';
import { type AgentFactory, AgentTypes, describeAgent, loadInto, stateOf } from './agent.ts';
import { AgentSessions, type Assignment } from './agent-sessions.ts';
import { Branching, type ForkOptions } from './branching.ts';
import { type CheckpointComparison, compare } from './compare.ts';
import type { ManagerContext } from './context.ts';
import { type EventHandler, type EventName, Events } from './events.ts';
import { exportCheckpoint, exportSession } from './export.ts';
import { clearUserHistory, deleteSession } from './forgetting.ts';
import {
  type BranchHead,
  type CheckpointPage,
  History,
  type ListFilter,
  type ListPage,
  type SessionTree,
} from './history.ts';
import { type ImportResult, importSession } from './import.ts';
import type { LineageEntry } from './lineage.ts';
import { loadState, readState } from './loading.ts';
import type { CheckpointManagerOptions } from './manager-options.ts';
import { Migrations } from './migrations.ts';
import { createPorts } from './ports.ts';
import { createRedactor } from './redaction.ts';
import { Repository, type StoredCheckpoint } from './repository.ts';
import { createReport, findLeftOutSecrets, type RestoreReport } from './restore-report.ts';
import { checkRetentionPolicy, DEFAULT_RETENTION, type RetentionPolicy } from './retention.ts';
import { deleteCheckpoints, type PruneResult, RetentionRunner } from './retention-runner.ts';
import type { SaveOptions } from './save-options.ts';
import type { Session, SessionOptions } from './session.ts';
import { SessionOpener } from './session-opener.ts';
import { ShadowBudget } from './shadow-budget.ts';
import { type VerifyReport, verify } from './verify.ts';

/** Where a state is put on restore; without either, the checkpoint's agent type is looked up. */
export type RestoreOptions = {
  /** A live agent that takes the state over. */
  readonly into?: object;
  readonly factory?: AgentFactory;
};

/** A frozen state is saved once; the next one is another object, and would silently begin another session. */
const UNNAMED_FROZEN =
  'A frozen state does not say which session it belongs to. Use manager.session(id), or save(state, { sessionId }).';

const DEFAULT_SHADOW_BUDGET_BYTES = 256 * 1024 * 1024;

/** Saves, restores, forks, compares and forgets what agents know and have done. One manager serves any number of agents and sessions. */
export class CheckpointManager {
  readonly #context: ManagerContext;
  readonly #agents: AgentTypes;
  readonly #history: History;
  readonly #branching: Branching;
  readonly #retention: RetentionRunner;
  readonly #sessions: SessionOpener;
  readonly #agentSessions = new AgentSessions();
  readonly #reports = new WeakMap<object, RestoreReport>();
  #isClosed = false;

  constructor(options: CheckpointManagerOptions) {
    this.#context = createContext(options);
    this.#agents = new AgentTypes(options.agents);
    this.#history = new History(this.#context);
    this.#branching = new Branching(this.#context);
    this.#sessions = new SessionOpener(this.#context, {
      branching: this.#branching,
      afterSave: (checkpoint) => this.#afterSave(checkpoint),
    });
    this.#retention = new RetentionRunner(this.#context, mergeRetention(options.retention, this.#context.storage));
  }

  // Saving and restoring

  /** Saves an agent or a state, on top of what was saved of it before. Resolves when the checkpoint is durable. */
  async save(
    agentOrState: unknown,
    options: SaveOptions & { readonly sessionId?: string } = {},
  ): Promise<CheckpointId> {
    this.#checkOpen();
    const { sessionId, ...said } = options;
    const { codec } = this.#context;
    const described: SaveOptions = { ...describeAgent(agentOrState, codec), ...said };
    const state = stateOf(agentOrState, codec);
    if (typeof agentOrState !== 'object' || agentOrState === null) {
      return (await this.#sessions.shared(this.#toSessionId(sessionId))).save(state, described);
    }
    const { defaults } = this.#assign(agentOrState, sessionId, described.agentId);
    const whole = { ...defaults, ...described };
    const session = this.#agentSessions.openSession(agentOrState);
    if (session !== undefined) return session.save(state, whole);
    // Captured before anything is awaited: the caller may go on changing it.
    const encoded = this.#agentSessions.capture(agentOrState, (before) => codec.encode(state, before));
    return (await this.#agentSessions.open(agentOrState)).saveEncoded(state, encoded, whole);
  }

  /** Where an object's saves go: where the caller says now, where they went before, or to a session of its own. */
  #assign(agent: object, sessionId: string | undefined, agentId: string | undefined): Assignment {
    const known = this.#agentSessions.get(agent);
    if (known !== undefined && (sessionId === undefined || sessionId === known.sessionId)) return known;
    const name = sessionId ?? agentId;
    if (name === undefined && Object.isFrozen(agent)) throw new InvalidInputError(UNNAMED_FROZEN);
    const id = this.#toSessionId(name);
    const assignment = { sessionId: id, open: () => this.#sessions.shared(id) };
    this.#agentSessions.assign(agent, assignment);
    return assignment;
  }

  #toSessionId(name: string | undefined): SessionId {
    return parseSessionId(name ?? `ses_${this.#context.ports.nextId().slice(4)}`);
  }

  /**
   * Brings a checkpoint back: into a live agent, a new one from a factory or a registered type, or, if it was saved
   * from plain data, as that data. Saving it afterwards goes on from there, in a new branch if history had moved on.
   */
  async restore<Agent = unknown>(idOrPrefix: string, options: RestoreOptions = {}): Promise<Agent> {
    const stored = await this.#open(idOrPrefix);
    const { checkpoint } = stored;
    const { state, encoded, migratedThrough } = await loadState(this.#context, stored);
    const agent = this.#createAgent(checkpoint, options);
    const problems = agent === undefined ? [] : await loadInto(agent, state);
    const report = createReport(checkpoint.id, [...findLeftOutSecrets(state), ...problems], migratedThrough);
    const restored = agent ?? state;
    if (typeof restored === 'object' && restored !== null) {
      this.#reports.set(restored, report);
      const { sessionId, agentId, userId } = checkpoint;
      const defaults = { ...(agentId !== undefined && { agentId }), ...(userId !== undefined && { userId }) };
      const open = () => this.#sessions.resumeAt(checkpoint);
      this.#agentSessions.assign(restored, { sessionId, open, before: encoded, defaults });
    }
    await this.#context.events.emit('checkpoint_restored', checkpoint, restored, report);
    return restored as Agent;
  }

  #createAgent(checkpoint: Checkpoint, { into, factory }: RestoreOptions): object | undefined {
    if (into !== undefined) return into;
    if (factory !== undefined) return factory(checkpoint);
    return checkpoint.agentType === undefined ? undefined : this.#agents.create(checkpoint, checkpoint.agentType);
  }

  /** What the restore of this agent could not put back. */
  reportOf(agent: object): RestoreReport | undefined {
    return this.#reports.get(agent);
  }

  /** Lets `restore` make agents of this type by itself. */
  registerAgent(agentType: string, factory: AgentFactory): void {
    this.#agents.register(parseName(agentType, 'An agent type'), factory);
  }

  /** Opens a session: resumes it at its head if it exists, begins it otherwise. */
  async session(sessionId: string, options: SessionOptions = {}): Promise<Session> {
    this.#checkOpen();
    return this.#sessions.open(sessionId, options);
  }

  async #afterSave(checkpoint: Checkpoint): Promise<void> {
    await this.#context.events.emit('checkpoint_saved', checkpoint);
    try {
      await this.#retention.afterSave(checkpoint);
    } catch (error) {
      this.#context.events.report(error, 'checkpoint_saved'); // the save itself is durable: it must not seem to have failed
    }
  }

  // Looking

  /** The state of a checkpoint, as new plain data that is the caller's own. */
  async load(idOrPrefix: string): Promise<unknown> {
    return readState(this.#context, await this.#open(idOrPrefix));
  }

  /** A checkpoint without its state; undefined if there is none with exactly this id. */
  async get(id: string): Promise<Checkpoint | undefined> {
    this.#checkOpen();
    const row = await this.#context.storage.readCheckpoint(id as CheckpointId);
    return row === undefined || row.isDeleted ? undefined : (await this.#context.repository.open(row.id)).checkpoint;
  }

  /** The newest checkpoint that fits. */
  async latest(filter: ListFilter = {}): Promise<Checkpoint | undefined> {
    return this.#history.latest(filter);
  }

  async listByUser(
    userId: string,
    page: { readonly limit?: number; readonly offset?: number } = {},
  ): Promise<readonly Checkpoint[]> {
    return (await this.#history.list({ userId: parseName(userId, 'A user id') }, page)).checkpoints;
  }

  async list(filter: ListFilter = {}, page: ListPage = {}): Promise<CheckpointPage> {
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

  async branches(sessionId: string): Promise<BranchHead[]> {
    return this.#history.branches(sessionId);
  }

  /** How the second checkpoint differs from the first. */
  async compare(before: string, after: string): Promise<CheckpointComparison> {
    return compare(this.#context, before, after);
  }

  // Branching and naming

  async fork(idOrPrefix: string, options?: ForkOptions): Promise<BranchHead> {
    return this.#branching.fork(idOrPrefix, options);
  }

  async rewind(idOrPrefix: string, options?: ForkOptions): Promise<BranchHead> {
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
    await this.#branching.mark(idOrPrefix, 'completed');
  }

  /** Notes that a `recovery` checkpoint is not needed any more; retention may drop it now. */
  async clearRecovery(idOrPrefix: string): Promise<void> {
    await this.#branching.mark(idOrPrefix, 'cleared');
  }

  /** Applies the retention policy, or another one; with `dryRun` only says what it would do and why. */
  async prune(options: { readonly policy?: RetentionPolicy; readonly dryRun?: boolean } = {}): Promise<PruneResult> {
    this.#checkOpen();
    if (options.policy !== undefined) checkRetentionPolicy(options.policy);
    return this.#retention.prune(options);
  }

  /** Deletes checkpoints older than this, except what is protected; answers how many. */
  async cleanupOldCheckpoints({ maxAgeDays }: { readonly maxAgeDays: number }): Promise<number> {
    return (await this.prune({ policy: { maxAgeDays } })).deleted.length;
  }

  /** Deletes everything of a user; answers how many checkpoints that were. */
  async clearUserHistory(userId: string): Promise<number> {
    return clearUserHistory(this.#context, userId);
  }

  /** Deletes one checkpoint, unless a branch, tag or pin protects it; answers whether it was. */
  async delete(idOrPrefix: string, options: { readonly reason?: string } = {}): Promise<boolean> {
    const { checkpoint } = await this.#open(idOrPrefix);
    const deleted = await deleteCheckpoints(this.#context, [
      { id: checkpoint.id, reason: options.reason ?? 'deleted by hand' },
    ]);
    return deleted.length > 0;
  }

  /** Deletes a session with all that is in it. */
  async deleteSession(sessionId: string): Promise<boolean> {
    return deleteSession(this.#context, sessionId);
  }

  /** Removes chunks that nothing needs any more and gives the space back. */
  async gc(options: { readonly signal?: AbortSignal } = {}): Promise<CollectResult> {
    return this.#context.storage.collect(options);
  }

  // Trusting

  /** Checks everything that is stored and names what is damaged. */
  async verify(options: { readonly readData?: boolean } = {}): Promise<VerifyReport> {
    this.#checkOpen();
    return verify(this.#context, options);
  }

  async stats(): Promise<StorageStats> {
    return this.#context.storage.stats();
  }

  /** A session as one self-contained stream of lines; write it to a file with `writeFile(path, manager.exportSession(id))`. */
  exportSession(sessionId: string): AsyncGenerator<string> {
    return exportSession(this.#context, sessionId);
  }

  /** Reads what `exportSession` wrote, checking all of it. */
  async importSession(source: AsyncIterable<string | Uint8Array>): Promise<ImportResult> {
    this.#checkOpen();
    return importSession(this.#context, source);
  }

  /** One checkpoint with its whole state, as JSON for people to read. */
  async exportCheckpoint(idOrPrefix: string): Promise<CheckpointJson> {
    return exportCheckpoint(this.#context, idOrPrefix);
  }

  /** Calls a handler after each such event; answers how to stop. */
  on<Name extends EventName>(
    event: Name,
    handler: EventHandler<Name>,
    options?: { readonly await?: boolean },
  ): () => void {
    return this.#context.events.on(event, handler, options);
  }

  /** Waits for saves under way, then closes the sessions and the storage. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#sessions.closeAll();
    await this.#context.storage.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(idOrPrefix: string): Promise<StoredCheckpoint> {
    this.#checkOpen();
    return this.#context.repository.open(idOrPrefix);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('This CheckpointManager was closed.');
  }
}

function createContext(options: CheckpointManagerOptions): ManagerContext {
  const { storage: given, secrets, schemaVersion, migrations, now, random } = options;
  if (typeof given !== 'object' || given === null) throw new InvalidInputError('A CheckpointManager needs a storage.');
  const redaction = secrets === 'store-secrets-in-plain-text' ? {} : { redact: createRedactor(secrets) };
  const codec = new StateCodec({ classes: options.classes, limits: options.limits, ...redaction });
  const storage = isCheckpointStorage(given)
    ? new WholeCheckpointStorage(given, new StateCodec({ classes: options.classes, limits: options.limits }))
    : given;
  return {
    storage,
    repository: new Repository(storage),
    codec,
    events: new Events(options.onHandlerError ?? warnAboutHandler),
    ports: createPorts({ now, random }),
    shadows: new ShadowBudget(options.shadowBudgetBytes ?? DEFAULT_SHADOW_BUDGET_BYTES),
    migrations: new Migrations(schemaVersion, migrations),
  };
}

function warnAboutHandler(error: unknown, event: EventName): void {
  process.emitWarning(
    `A handler of ${event} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    'SavestateWarning',
  );
}

function mergeRetention(policy: RetentionPolicy | undefined, { limits }: ChunkStorage): RetentionPolicy {
  if (policy !== undefined) checkRetentionPolicy(policy);
  return { ...limits, ...policy, types: { ...DEFAULT_RETENTION.types, ...policy?.types } };
}
