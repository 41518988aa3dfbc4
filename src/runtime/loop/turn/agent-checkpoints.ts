import { hasErrorCode } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { Serial } from '../../../core/time/serial.ts';
import type { OwnSave } from '../../../manager/agent/agent.ts';
import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { parseRow } from '../../../manager/engine/records.ts';
import type { SaveOptions } from '../../../manager/engine/save-options.ts';
import { DAY_MS } from '../../../manager/retention/retention-policy.ts';
import type { Session } from '../../../manager/session/session.ts';
import { tellRestored } from '../../run/differences.ts';
import type { LoopAgentState } from '../state/agent-state.ts';
import { type ErrorText, errorText } from '../state/error-text.ts';
import { SECTION_NAMES, type SectionsReport } from '../state/sections.ts';
import type { LiveAgent } from './live-agent.ts';
import type { LoopEvents } from './loop-events.ts';

type CheckpointReason = Pick<SaveOptions, 'note' | 'metadata'> & {
  readonly type: 'routine' | 'pre_operation' | 'recovery';
  readonly trigger: string;
  /** A checkpoint that is asked for again with the same key is taken once. */
  readonly key?: string;
};

/** Who an agent is, for the headers of its checkpoints. */
export type AgentIdentity = { readonly agentId: string; readonly agentType?: string; readonly userId?: string };

/** Whose checkpoints are taken. */
export type CheckpointParts = {
  readonly manager: CheckpointManager;
  readonly session: Session;
  readonly live: LiveAgent;
  readonly identity: AgentIdentity;
  readonly tell: LoopEvents['tell'];
};

/** Names the last healthy checkpoint while newer ones are not, so that it is kept. */
const HEALTHY_TAG = 'last-healthy';
const PAGE = 200;

/** Triggers of the recovery checkpoints that errors make. */
const ERROR_TRIGGERS = ['error', 'operation_failed'] as const;
/** What comes sooner after the last of them, or more often, leaves none. */
const ERROR_COOLDOWN_MS = 5 * 60_000;
const MAX_ERRORS_PER_DAY = 24;

/** Takes the checkpoints of one agent and protects the last healthy one. */
export class AgentCheckpoints {
  readonly #parts: CheckpointParts;
  readonly #serial = new Serial();
  #lastHealthyId: CheckpointId | undefined;
  /** What the tag protects now. */
  #taggedId: CheckpointId | undefined;
  /** When errors were kept, oldest first. */
  #errorsAtMs: readonly number[] = [];

  constructor(parts: CheckpointParts) {
    this.#parts = parts;
  }

  /** Finds out what earlier processes left: one that crashes again and again must flood nothing with errors either. */
  async open(): Promise<void> {
    const { manager, session } = this.#parts;
    this.#lastHealthyId = (await this.findHealthy())?.id;
    this.#taggedId = (await manager.tags(session.id)).find(({ name }) => name === HEALTHY_TAG)?.checkpointId;
    const since = new Date(manager.engine.ports.now() - DAY_MS);
    const { checkpoints } = await manager.list(
      { sessionId: session.id, type: 'recovery', from: since },
      { limit: 1000 },
    );
    const ofErrors = checkpoints.filter(({ trigger }) => ERROR_TRIGGERS.some((one) => one === trigger));
    this.#errorsAtMs = ofErrors.map(({ timestamp }) => timestamp.getTime()).toSorted((a, b) => a - b);
  }

  /** Tells that the agent goes on from a checkpoint, unless that is gone by now. */
  async tellRestored(from: CheckpointId, { sections }: SectionsReport): Promise<void> {
    const { manager, live } = this.#parts;
    const checkpoint = await manager.get(from);
    if (checkpoint === undefined) return;
    const problems = sections.flatMap((section) => section.problems);
    await tellRestored(manager, { checkpoint, restored: live.state, problems });
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

  /** Keeps the state in which something went wrong, unless that was done a moment ago or too often today. */
  async takeAfterError(trigger: (typeof ERROR_TRIGGERS)[number], error: ErrorText): Promise<void> {
    const nowMs = this.#parts.manager.engine.ports.now();
    const today = withinDay(this.#errorsAtMs, nowMs);
    this.#errorsAtMs = today;
    if (today.length >= MAX_ERRORS_PER_DAY || nowMs < (today.at(-1) ?? -Infinity) + ERROR_COOLDOWN_MS) return;
    this.#errorsAtMs = [...today, nowMs];
    await this.tryTake({ type: 'recovery', trigger, note: `${error.name}: ${error.message}` });
  }

  async #take({ type, trigger, note, metadata, key }: CheckpointReason): Promise<CheckpointId> {
    const { session, live, tell } = this.#parts;
    const taken = key === undefined ? undefined : await this.#findTaken(type, key);
    if (taken !== undefined) return taken;
    const isHealthy = live.watch.reading.status === 'healthy';
    if (!isHealthy) await this.#protectHealthy();
    const { state, options } = this.prepare();
    const id = await session.save(state, {
      ...options,
      type,
      trigger,
      ...(note !== undefined && { note }),
      ...(key !== undefined && { idempotencyKey: key }),
      metadata: { ...options.metadata, ...metadata },
    });
    if (isHealthy) {
      this.#lastHealthyId = id;
      await this.#untag();
    }
    tell({ kind: 'checkpoint', id, type, trigger });
    return id;
  }

  /** What an earlier process took under this key in the turn that is under way, whatever the state is by now. */
  async #findTaken(type: string, key: string): Promise<CheckpointId | undefined> {
    const { manager, session, live } = this.#parts;
    const metadata = { turn: live.loop.turn };
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
    return { session, state, options: { ...identity, metadata, status: statusOf(live) } };
  }

  /** What an agent collects, or a watch remembers, may be what no codec takes; a checkpoint without that is better than none. */
  #capture(): LoopAgentState {
    const { live, tell } = this.#parts;
    const before = live.state;
    const { loop, ...state } = live.capture();
    for (const name of SECTION_NAMES) {
      const problem = state[name] === before[name] ? undefined : this.#problemOf(state[name]);
      if (problem === undefined) continue;
      live.onProblem(name, problem);
      Object.assign(state, { [name]: before[name] });
    }
    live.change(state);
    const problem = loop.drift === null ? undefined : this.#problemOf(loop.drift);
    if (problem === undefined) return { ...state, loop };
    tell({ kind: 'watch_failed', error: { name: 'InvalidInputError', message: problem } });
    return { ...state, loop: { ...loop, drift: null } };
  }

  #problemOf(value: unknown): string | undefined {
    try {
      this.#parts.manager.engine.plainCodec.encode(value);
      return undefined;
    } catch (error) {
      return errorText(error).message;
    }
  }

  /** While an agent is not well, its routine checkpoints must not push out the last good one. */
  async #protectHealthy(): Promise<void> {
    const id = this.#lastHealthyId;
    if (id === undefined || this.#taggedId === id) return;
    await this.#untag();
    this.#taggedId = await unlessGone(this.#parts.manager.tag(id, HEALTHY_TAG));
  }

  async #untag(): Promise<void> {
    const { manager, session } = this.#parts;
    if (this.#taggedId !== undefined) await unlessGone(manager.untag(session.id, HEALTHY_TAG));
    this.#taggedId = undefined;
  }

  /** The newest checkpoint of a healthy agent, taken before `beforeMs` if there is one. */
  async findHealthy(beforeMs?: number): Promise<Checkpoint | undefined> {
    const { manager, session } = this.#parts;
    const filter = { sessionId: session.id, branch: session.branch, metadata: { health: 'healthy' } };
    const early = beforeMs === undefined ? undefined : await manager.latest({ ...filter, to: new Date(beforeMs) });
    return early ?? manager.latest(filter);
  }
}

/** Those of these times that lie within a day. What the clock, set back since, says is yet to come, counts as just now. */
export function withinDay(timesMs: readonly number[], nowMs: number): readonly number[] {
  return timesMs.map((timeMs) => Math.min(timeMs, nowMs)).filter((timeMs) => nowMs - timeMs < DAY_MS);
}

/** Someone may have deleted a checkpoint or its tag by hand, or it is damaged; there is nothing to protect then. */
async function unlessGone<Result>(change: Promise<Result>): Promise<Result | undefined> {
  try {
    return await change;
  } catch (error) {
    if (!hasErrorCode(error, 'NOT_FOUND') && !hasErrorCode(error, 'CORRUPT')) throw error;
    return undefined;
  }
}

/** What an agent waits for, if anything: age does not end one with a status that begins with `waiting`. */
function statusOf({ loop, mailbox, mind }: LiveAgent): string | undefined {
  if (loop.escalation !== null) return 'waiting_for_person';
  if (mailbox.setAside.length > 0) return 'waiting_for_retry';
  if (mailbox.first !== undefined) return 'waiting_for_turn';
  return mind.task?.status === 'waiting' ? 'waiting_on_task' : undefined;
}
