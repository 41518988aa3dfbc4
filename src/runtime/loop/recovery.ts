import type { CheckpointId } from '../../core/id.ts';
import { DAY_MS } from '../../manager/retention-policy.ts';
import { type AgentState, addNote, type Job, mindOf, type RecoveryNote } from './agent-state.ts';
import type { ErrorText } from './error-text.ts';
import type { LoopParts } from './loop-parts.ts';
import type { OperationLog } from './operation.ts';
import { RateLimit } from './rate-limit.ts';
import { EMPTY_SECTIONS, readSections } from './sections.ts';

/** Triggers of the recovery checkpoints that errors make. */
const ERROR_TRIGGERS = ['error', 'operation_failed'] as const;

/** Brings an agent back: with clean context after a while, from its last healthy state when it drifts. */
export class Recovery {
  readonly #parts: LoopParts;
  #errors: RateLimit;
  #restores: RateLimit;
  #drifted: { readonly turn: number; readonly id: CheckpointId } | undefined;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#errors = this.#errorLimit([]);
    this.#restores = this.#restoreLimit(parts.live.state.loop.restoredAtMs);
  }

  #restoreLimit(timesMs: readonly number[]): RateLimit {
    const { restoreCooldownMs, maxRestoresPerDay } = this.#parts.settings;
    return new RateLimit({ cooldownMs: restoreCooldownMs, max: maxRestoresPerDay, windowMs: DAY_MS }, timesMs);
  }

  #errorLimit(timesMs: readonly number[]): RateLimit {
    const { errorCooldownMs, maxErrorCheckpointsPerDay } = this.#parts.settings;
    return new RateLimit({ cooldownMs: errorCooldownMs, max: maxErrorCheckpointsPerDay, windowMs: DAY_MS }, timesMs);
  }

  /** Counts what earlier processes saved, so that a process that crashes again and again floods nothing either. */
  async open(): Promise<void> {
    const { checkpoints, ports } = this.#parts;
    const sinceMs = ports.now() - DAY_MS;
    const times = await Promise.all(ERROR_TRIGGERS.map((trigger) => checkpoints.timesOf(trigger, sinceMs)));
    this.#errors = this.#errorLimit(times.flat());
  }

  /** Keeps the state in which something went wrong, unless that was done a moment ago or too often today. */
  async saveAfterError(trigger: (typeof ERROR_TRIGGERS)[number], error: ErrorText): Promise<void> {
    const { checkpoints, ports } = this.#parts;
    if (!this.#errors.isAllowed(ports.now())) return;
    this.#errors.note(ports.now());
    await checkpoints.tryTake({ type: 'recovery', trigger, note: `${error.name}: ${error.message}` });
  }

  /** The account of guarded operations; a failed one leaves a recovery checkpoint, as errors do. */
  get operations(): OperationLog {
    const { checkpoints } = this.#parts;
    return {
      begin: (operation) => checkpoints.beginOperation(operation),
      succeed: (name, before) => checkpoints.completeOperation(name, before),
      fail: async ({ name, error }, before) => {
        await checkpoints.replaceOperation(name, before);
        await this.saveAfterError('operation_failed', error);
      },
      rolledBack: (name, undone) => checkpoints.noteRollback(name, undone),
    };
  }

  /** Saves everything, then goes on with a new agent and clean context, or ends the run for a new process to do so. */
  async refresh(): Promise<'refresh' | undefined> {
    const { checkpoints, live, tell, refreshMode } = this.#parts;
    const from = await checkpoints.take({ type: 'recovery', trigger: 'refresh' });
    if (refreshMode === 'exit') return 'refresh';
    live.clean();
    tell({ kind: 'refreshed', from, report: await live.renew() });
    return undefined;
  }

  /** Goes back to the last healthy state, or escalates. Answers until when the agent has to rest before it can. */
  async recoverFromDrift(): Promise<number> {
    const { live, checkpoints, ports, settings } = this.#parts;
    const { summary, sinceMs } = live.reading;
    const drifted = await this.#saveDrifted();
    if (this.#restores.isUsedUp(ports.now())) {
      await this.escalate(`It drifted again after ${settings.maxRestoresPerDay} restores within a day. ${summary}`);
    } else if (ports.now() >= this.#restores.restsUntilMs()) {
      const healthy = await checkpoints.findHealthy(sinceMs);
      if (healthy === undefined) await this.escalate(`It drifts and was never saved healthy. ${summary}`);
      else await this.#restore(healthy.id, { drifted, reason: summary });
    }
    return live.isDrifting ? this.#restores.restsUntilMs() : ports.now();
  }

  /** Once for each drift, also if the process dies before it is dealt with. */
  async #saveDrifted(): Promise<CheckpointId> {
    const { live, checkpoints, session, tell } = this.#parts;
    const { turn } = live.state.loop;
    if (this.#drifted?.turn === turn) return this.#drifted.id;
    tell({ kind: 'drift', reading: live.reading });
    const key = `${session.id} drift in turn ${turn}`;
    const id = await checkpoints.take({ type: 'recovery', trigger: 'drift', note: live.reading.summary, key });
    this.#drifted = { turn, id };
    return id;
  }

  /** Task, context and memory go back; the mailbox does not: what was handled stays handled, what waits goes on waiting. */
  async #restore(from: CheckpointId, { drifted, reason }: { drifted: CheckpointId; reason: string }): Promise<void> {
    const { manager, live, checkpoints, ports, tell } = this.#parts;
    const stored = (await manager.load(from)) as Partial<AgentState>;
    const note = this.#noteOn(from, { stored, reason });
    const { kept } = readSections(stored);
    this.#restores.note(ports.now());
    live.change(addNote(mindOf(kept), note));
    live.changeLoop({ restoredAtMs: this.#restores.timesMs(ports.now()), workFailures: 0 });
    live.clean();
    const report = await live.renew();
    const metadata = { restoredFrom: from, drifted };
    await checkpoints.take({ type: 'recovery', trigger: 'restored', note: note.text, metadata });
    tell({ kind: 'restored', from, report });
  }

  #noteOn(from: CheckpointId, { stored, reason }: { stored: Partial<AgentState>; reason: string }): RecoveryNote {
    const { live, ports } = this.#parts;
    const { mailbox } = live.state;
    const handled = mailbox.processedCount - (stored.mailbox ?? EMPTY_SECTIONS.mailbox).processedCount;
    const handledSince = handled > 0 ? mailbox.recentIds.slice(-handled) : [];
    const text = `You were brought back to an earlier state because you got nowhere. ${reason} Try another way.`;
    return { kind: 'drift', atMs: ports.now(), text, restoredFrom: from, handledSince };
  }

  /** Says that a job was given up; too many messages that wait for a person are a reason to call one. */
  async giveUp(job: Job, error: ErrorText): Promise<void> {
    const { live, settings, tell } = this.#parts;
    if (job.kind === 'work') tell({ kind: 'task_failed', error });
    else tell({ kind: 'set_aside', messageId: job.messageId, error });
    const { length } = live.state.mailbox.setAside;
    if (length >= settings.maxSetAside) await this.escalate(`${length} messages are set aside.`);
  }

  /** Begins to count restores anew, after a person looked at the agent. */
  forgive(): void {
    const { live } = this.#parts;
    this.#restores = this.#restoreLimit([]);
    live.changeLoop({ escalation: null, restoredAtMs: [] });
    live.clean();
  }

  /** Stops taking turns until a person says so. Messages are still accepted. */
  async escalate(reason: string): Promise<void> {
    const { live, checkpoints, ports, tell } = this.#parts;
    live.changeLoop({ escalation: { atMs: ports.now(), reason } });
    await checkpoints.tryTake({ type: 'recovery', trigger: 'escalated', note: reason });
    tell({ kind: 'escalated', reason });
  }
}
