import type { Checkpoint } from '../../core/checkpoint.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Session } from '../../manager/session.ts';
import { errorText } from './error-text.ts';
import type { LiveAgent } from './live-agent.ts';
import type { LoopEvent } from './loop-events.ts';
import type { UndoneCall } from './operation.ts';

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
/** Operations whose checkpoints are looked for at the start; more than one agent has risky operations of different names. */
const MAX_OPERATIONS = 100;

/** Takes the checkpoints of one agent and keeps account of what retention needs to know about them. */
export class AgentCheckpoints {
  readonly #parts: Parts;
  #last: Promise<unknown> = Promise.resolve();
  #lastHealthyId: CheckpointId | undefined;
  /** What the tag protects now. */
  #taggedId: CheckpointId | undefined;
  /** The newest checkpoint of each operation that has not succeeded since. */
  readonly #unfinished = new Map<string, CheckpointId>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Finds out what an earlier process left. */
  async open(): Promise<void> {
    const { manager, session } = this.#parts;
    this.#lastHealthyId = (await this.findHealthy())?.id;
    this.#taggedId = (await manager.tags(session.id)).find(({ name }) => name === HEALTHY_TAG)?.checkpointId;
    const filter = { sessionId: session.id, branch: session.branch, type: 'pre_operation' };
    const { checkpoints } = await manager.list(filter, { limit: MAX_OPERATIONS });
    for (const { id, metadata } of checkpoints.toReversed()) this.#unfinished.set(String(metadata?.operation), id);
  }

  /** Takes a checkpoint; the state is read when the one before is stored, so that it has all that was recorded till then. */
  async take(reason: CheckpointReason): Promise<CheckpointId> {
    const taking = this.#last.then(() => this.#take(reason));
    this.#last = taking.catch(() => undefined);
    return taking;
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
    const { session, live, identity, tell } = this.#parts;
    const { status: health, score, signals, sinceMs } = live.reading;
    if (health !== 'healthy') await this.#protectHealthy();
    const state = live.capture();
    const id = await session.save(state, {
      ...identity,
      type,
      trigger,
      ...(note !== undefined && { note }),
      ...(key !== undefined && { idempotencyKey: key }),
      metadata: {
        health,
        driftScore: score,
        driftSignals: signals,
        ...(sinceMs !== undefined && { driftSinceMs: sinceMs }),
        turn: state.loop.turn,
        ...metadata,
      },
    });
    if (health === 'healthy') await this.#noteHealthy(id);
    tell({ kind: 'checkpoint', id, type, trigger });
    return id;
  }

  /** While an agent is not well, its routine checkpoints must not push out the last good one. */
  async #protectHealthy(): Promise<void> {
    const id = this.#lastHealthyId;
    if (id === undefined || this.#taggedId === id) return;
    await this.#untag();
    this.#taggedId = await this.#parts.manager.tag(id, HEALTHY_TAG);
  }

  async #noteHealthy(id: CheckpointId): Promise<void> {
    this.#lastHealthyId = id;
    await this.#untag();
  }

  async #untag(): Promise<void> {
    const { manager, session } = this.#parts;
    if (this.#taggedId !== undefined) await manager.untag(session.id, HEALTHY_TAG);
    this.#taggedId = undefined;
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

  async beginOperation({ name, key }: { readonly name: string; readonly key: string }): Promise<CheckpointId> {
    const id = await this.take({
      type: 'pre_operation',
      trigger: 'guard',
      metadata: { operation: name },
      key: this.#keyOf(key),
    });
    this.#parts.tell({ kind: 'operation', name, status: 'begun' });
    return id;
  }

  async completeOperation(name: string, before: CheckpointId): Promise<void> {
    await this.#complete(this.#unfinished.get(name));
    await this.#complete(before);
    this.#unfinished.delete(name);
    this.#parts.tell({ kind: 'operation', name, status: 'done' });
  }

  /** A failed operation keeps its checkpoint until one of its name succeeds; the one of an earlier failure may go. */
  async replaceOperation(name: string, before: CheckpointId): Promise<void> {
    const replaced = this.#unfinished.get(name);
    if (replaced !== before) await this.#complete(replaced);
    this.#unfinished.set(name, before);
    this.#parts.tell({ kind: 'operation', name, status: 'failed' });
  }

  noteRollback(name: string, undone: readonly UndoneCall[]): void {
    this.#parts.tell({ kind: 'operation', name, status: 'rolled_back', undone });
  }

  async #complete(id: CheckpointId | undefined): Promise<void> {
    const { manager } = this.#parts;
    if (id !== undefined && (await manager.get(id)) !== undefined) await manager.completeOperation(id);
  }

  #keyOf(key: string): string {
    const { session, live } = this.#parts;
    return `${session.id} ${session.branch} turn ${live.state.loop.turn + 1} ${key}`;
  }
}
