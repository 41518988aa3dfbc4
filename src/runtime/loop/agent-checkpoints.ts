import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { Serial } from '../../core/time/serial.ts';
import type { OwnSave } from '../../manager/agent/agent.ts';
import { eachCheckpoint } from '../../manager/branch/history.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { parseRow } from '../../manager/engine/records.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { tellRestored } from '../run/differences.ts';
import type { LoopAgentState } from './state/agent-state.ts';
import { errorText } from './state/error-text.ts';
import { nextPending } from './state/mailbox.ts';
import { SECTION_NAMES, type SectionsReport } from './state/sections.ts';
import type { LiveAgent } from './turn/live-agent.ts';
import type { LoopEvent } from './turn/loop-events.ts';
import type { UndoneCall } from './turn/operation.ts';

/** Why a checkpoint is taken. */
export type CheckpointReason = {
  readonly type: 'routine' | 'pre_operation' | 'recovery';
  readonly trigger: string;
  readonly note?: string;
  readonly metadata?: { readonly [key: string]: unknown };
  /** A checkpoint that is asked for again with the same key is taken once. */
  readonly key?: string;
};

/** Who an agent is, for the headers of its checkpoints. */
export type AgentIdentity = { readonly agentId: string; readonly agentType?: string; readonly userId?: string };

type Parts = {
  readonly manager: CheckpointManager;
  readonly session: Session;
  readonly live: LiveAgent;
  readonly identity: AgentIdentity;
  readonly tell: (event: LoopEvent) => void;
};

/** Names the last healthy checkpoint while newer ones are not, so that it is kept. */
const HEALTHY_TAG = 'last-healthy';
/** Operations that did not succeed, of different names, whose checkpoints are kept; more than a person would look at. */
const MAX_OPERATIONS = 100;
const PAGE = 200;

/** An operation that has a checkpoint, and the turn in which it began: while that is under way, so may the operation be. */
type Begun = { readonly name: string; readonly turn: number };

/** No turn has this number. */
const OVER = -1;

/** What an agent waits for, if anything: age does not end one with a status that begins with `waiting`. */
function statusOf({ loop, mailbox, task }: LoopAgentState): string | undefined {
  if (loop.escalation !== null) return 'waiting_for_person';
  if (mailbox.setAside.length > 0) return 'waiting_for_retry';
  if (nextPending(mailbox) !== undefined) return 'waiting_for_turn';
  return task?.status === 'waiting' ? 'waiting_on_task' : undefined;
}

/** Takes the checkpoints of one agent and keeps account of what retention needs to know about them. */
export class AgentCheckpoints {
  readonly #parts: Parts;
  readonly #serial = new Serial();
  #lastHealthyId: CheckpointId | undefined;
  /** What the tag protects now. */
  #taggedId: CheckpointId | undefined;
  /** Checkpoints of operations that are under way, failed, or were interrupted; oldest first. */
  readonly #unfinished = new Map<CheckpointId, Begun>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Finds out what an earlier process left. */
  async open(): Promise<void> {
    const { manager, session } = this.#parts;
    this.#lastHealthyId = (await this.findHealthy())?.id;
    this.#taggedId = (await manager.tags(session.id)).find(({ name }) => name === HEALTHY_TAG)?.checkpointId;
    await this.#findUnfinished();
  }

  /** Tells that the agent goes on from a checkpoint, unless that is gone by now. */
  async tellRestored(from: CheckpointId, { sections }: SectionsReport): Promise<void> {
    const { manager, live } = this.#parts;
    const checkpoint = await manager.get(from);
    if (checkpoint === undefined) return;
    const problems = sections.flatMap((section) => section.problems);
    await tellRestored(manager, { checkpoint, restored: live.state, problems });
  }

  async #findUnfinished(): Promise<void> {
    const { manager, session } = this.#parts;
    const marks = await manager.engine.repository.readRefs({ sessionId: session.id, kind: 'mark' });
    const marked = new Set(marks.map(({ target }) => target));
    const filter = { sessionId: session.id, branch: session.branch, type: 'pre_operation' };
    for await (const { id, metadata } of eachCheckpoint(manager, filter, 'oldest'))
      if (!marked.has(id))
        this.#unfinished.set(id, { name: String(metadata?.operation), turn: Number(metadata?.turn ?? 0) + 1 });
  }

  /** Takes a checkpoint; the state is read when the one before is stored, so that it has all that was recorded till then. */
  async take(reason: CheckpointReason): Promise<CheckpointId> {
    return this.#serial.run(() => this.#take(reason));
  }

  /** Like `take`, where the agent can go on without: a failure is told and answered with undefined. */
  async tryTake(reason: CheckpointReason): Promise<CheckpointId | undefined> {
    try {
      return await this.take(reason);
    } catch (error) {
      if (!hasErrorCode(error, 'STORAGE')) throw error;
      this.#parts.tell({ kind: 'checkpoint_failed', trigger: reason.trigger, error: errorText(error) });
      return undefined;
    }
  }

  async #take({ type, trigger, note, metadata, key }: CheckpointReason): Promise<CheckpointId> {
    const { session, live, tell } = this.#parts;
    const taken = key === undefined ? undefined : await this.#findTaken(type, key);
    if (taken !== undefined) return taken;
    const health = live.watch.reading.status;
    if (health !== 'healthy') await this.#protectHealthy();
    const { state, options } = this.prepare();
    const id = await session.save(state, {
      ...options,
      type,
      trigger,
      ...(note !== undefined && { note }),
      ...(key !== undefined && { idempotencyKey: key }),
      metadata: { ...options.metadata, ...metadata },
    });
    if (health === 'healthy') await this.#noteHealthy(id);
    tell({ kind: 'checkpoint', id, type, trigger });
    return id;
  }

  /** What an earlier process took under this key in the turn that is under way, whatever the state is by now. */
  async #findTaken(type: string, key: string): Promise<CheckpointId | undefined> {
    const { manager, session, live } = this.#parts;
    const metadata = { turn: live.state.loop.turn };
    const rows = await manager.engine.storage.listCheckpoints({ sessionId: session.id, type, metadata, limit: PAGE });
    return rows.find((row) => parseRow(row).header.idempotencyKey === key)?.id;
  }

  /** The agent as it is now, and what a checkpoint of it says; nothing is waited for. */
  prepare(): OwnSave & { readonly options: SaveOptions } {
    const { session, live, identity } = this.#parts;
    const { status: health, score, signals, sinceMs } = live.watch.reading;
    const state = this.#capture();
    const drift = { health, driftScore: score, driftSignals: signals };
    const metadata = { ...drift, ...(sinceMs !== undefined && { driftSinceMs: sinceMs }), turn: state.loop.turn };
    return { session, state, options: { ...identity, metadata, status: statusOf(state) } };
  }

  /** What an agent collects, or a watch remembers, may be what no codec takes; a checkpoint without that is better than none. */
  #capture(): LoopAgentState {
    const { manager, live, tell } = this.#parts;
    const { plainCodec } = manager.engine;
    const isSavable = (value: unknown, onError: (message: string) => void): boolean => {
      try {
        plainCodec.encode(value);
        return true;
      } catch (error) {
        onError(errorText(error).message);
        return false;
      }
    };
    const before = live.state;
    const { loop, ...state } = live.capture();
    for (const name of SECTION_NAMES) {
      const isKept = state[name] === before[name] || isSavable(state[name], (message) => live.onProblem(name, message));
      if (!isKept) Object.assign(state, { [name]: before[name] });
    }
    live.change(state);
    const tellWatch = (message: string) =>
      tell({ kind: 'watch_failed', error: { name: 'InvalidInputError', message } });
    const isDriftKept = loop.drift === null || isSavable(loop.drift, tellWatch);
    return { ...state, loop: isDriftKept ? loop : { ...loop, drift: null } };
  }

  /** While an agent is not well, its routine checkpoints must not push out the last good one. */
  async #protectHealthy(): Promise<void> {
    const id = this.#lastHealthyId;
    if (id === undefined || this.#taggedId === id) return;
    await this.#untag();
    this.#taggedId = await this.#unlessGone(this.#parts.manager.tag(id, HEALTHY_TAG));
  }

  async #noteHealthy(id: CheckpointId): Promise<void> {
    this.#lastHealthyId = id;
    await this.#untag();
  }

  async #untag(): Promise<void> {
    const { manager, session } = this.#parts;
    if (this.#taggedId !== undefined) await this.#unlessGone(manager.untag(session.id, HEALTHY_TAG));
    this.#taggedId = undefined;
  }

  /** Someone may have deleted a checkpoint or its tag by hand, or it is damaged; there is nothing to protect then. */
  async #unlessGone<Result>(change: Promise<Result>): Promise<Result | undefined> {
    try {
      return await change;
    } catch (error) {
      if (!hasErrorCode(error, 'NOT_FOUND') && !hasErrorCode(error, 'CORRUPT')) throw error;
      return undefined;
    }
  }

  /** The newest checkpoint of a healthy agent, taken before `beforeMs` if there is one. */
  async findHealthy(beforeMs?: number): Promise<Checkpoint | undefined> {
    const { manager, session } = this.#parts;
    const filter = { sessionId: session.id, branch: session.branch, metadata: { health: 'healthy' } };
    const early = beforeMs === undefined ? undefined : await manager.latest({ ...filter, to: new Date(beforeMs) });
    return early ?? manager.latest(filter);
  }

  /** When recovery checkpoints were taken for this reason, since a moment. */
  async timesOf(trigger: string, sinceMs: number): Promise<number[]> {
    const { manager, session } = this.#parts;
    const filter = { sessionId: session.id, type: 'recovery', from: new Date(sinceMs) };
    const { checkpoints } = await manager.list(filter, { limit: 1000 });
    return checkpoints
      .filter((checkpoint) => checkpoint.trigger === trigger)
      .map(({ timestamp }) => timestamp.getTime());
  }

  // Guarded operations

  async beginOperation(operation: { readonly name: string; readonly key: string }): Promise<CheckpointId> {
    const { name } = operation;
    const key = this.#keyOf(operation.key);
    const id = await this.take({ type: 'pre_operation', trigger: 'guard', metadata: { operation: name }, key });
    this.#unfinished.set(id, { name, turn: this.#parts.live.nextTurn });
    await this.#release([...this.#over(name).slice(0, -1), ...this.#over().slice(0, -MAX_OPERATIONS)]);
    this.#parts.tell({ kind: 'operation', name, status: 'begun' });
    return id;
  }

  /** What failed or was interrupted before under this name need not be kept any more, either. */
  async completeOperation(name: string, before: CheckpointId): Promise<void> {
    await this.#release([...this.#over(name), before]);
    this.#parts.tell({ kind: 'operation', name, status: 'done' });
  }

  /** A failed operation keeps its checkpoint until one of its name succeeds; those of earlier failures may go. */
  async replaceOperation(name: string, before: CheckpointId): Promise<void> {
    await this.#release(this.#over(name).filter((id) => id !== before));
    this.#unfinished.delete(before);
    this.#unfinished.set(before, { name, turn: OVER });
    this.#parts.tell({ kind: 'operation', name, status: 'failed' });
  }

  /** Checkpoints of operations, of one name or of all, that are not under way any more; oldest first. */
  #over(name?: string): CheckpointId[] {
    const { nextTurn } = this.#parts.live;
    const over = [...this.#unfinished].filter(([, begun]) => begun.turn !== nextTurn);
    return over.filter(([, begun]) => name === undefined || begun.name === name).map(([id]) => id);
  }

  noteRollback(name: string, undone: readonly UndoneCall[]): void {
    this.#parts.tell({ kind: 'operation', name, status: 'rolled_back', undone });
  }

  /**
   * Lets retention have them. The operation ended, whatever becomes of its mark: what was deleted meanwhile needs none, and what the
   * storage did not take is tried again with the next operation of that name.
   */
  async #release(ids: readonly CheckpointId[]): Promise<void> {
    const { manager, tell } = this.#parts;
    for (const id of ids) {
      try {
        await manager.completeOperation(id);
        this.#unfinished.delete(id);
      } catch (error) {
        if (hasErrorCode(error, 'NOT_FOUND')) this.#unfinished.delete(id);
        else if (hasErrorCode(error, 'STORAGE')) tell({ kind: 'storage_failed', error: errorText(error) });
        else if (!hasErrorCode(error, 'CONFLICT')) throw error; // deleted in this moment: next time it is not found
      }
    }
  }

  #keyOf(key: string): string {
    const { session, live } = this.#parts;
    return `${session.id} ${session.branch} turn ${live.state.loop.turn + 1} ${key}`;
  }
}
