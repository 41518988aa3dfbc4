import { hasErrorCode } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { DAY_MS } from '../../manager/retention/retention-policy.ts';
import { type Earlier, readEarlier } from './hand-restore.ts';
import { type LoopParts, MINUTE_MS, retryDelayMs } from './loop-options.ts';
import { addNote, type Job, mindOf, type RecoveryNote, taskAfterDrift } from './state/agent-state.ts';
import { type ErrorText, errorText } from './state/error-text.ts';
import { asStored, readSections, type SectionsReport } from './state/sections.ts';
import type { LoopAgent } from './turn/loop-agent.ts';
import type { UndoneCalls } from './turn/open-works.ts';
import type { OperationLog } from './turn/operation.ts';

/** Triggers of the recovery checkpoints that errors make. */
const ERROR_TRIGGERS = ['error', 'operation_failed'] as const;

/** Recovery checkpoints for errors; what comes sooner, or more often, leaves none. */
const ERROR_LIMIT: RateLimitOptions = { cooldownMs: 5 * MINUTE_MS, maxPerDay: 24 };

/** Messages that wait for a person, until the loop does, too. */
const MAX_SET_ASIDE = 100;

/** Why an agent is brought back: the checkpoint of its drift, and what was wrong. */
type Why = { readonly drifted: CheckpointId; readonly reason: string };

/** What an agent is brought back to, why, and the one that goes on from there, if it is made already. */
type Return = Earlier & {
  readonly kind: RecoveryNote['kind'];
  readonly why: string;
  readonly metadata: { readonly [key: string]: unknown };
  readonly agent?: LoopAgent;
};

type Kept = ReturnType<typeof readSections>['kept'];

/** Brings an agent back: with clean context after a while, from its last healthy state when it drifts. */
export class Recovery {
  readonly #parts: LoopParts;
  #errors: RateLimit;
  #restores: RateLimit;
  #drifted: { readonly turn: number; readonly id: CheckpointId } | undefined;
  /** In a row. */
  #creationFailures = 0;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#errors = new RateLimit(ERROR_LIMIT);
    this.#restores = this.#restoreLimit(parts.live.state.loop.restoredAtMs);
  }

  #restoreLimit(timesMs: readonly number[]): RateLimit {
    const { restoreCooldownMs, maxRestoresPerDay } = this.#parts.settings;
    return new RateLimit({ cooldownMs: restoreCooldownMs, maxPerDay: maxRestoresPerDay }, timesMs);
  }

  /** Counts what earlier processes saved, so that a process that crashes again and again floods nothing either. */
  async open(): Promise<void> {
    const { checkpoints, ports } = this.#parts;
    const sinceMs = ports.now() - DAY_MS;
    const times = await Promise.all(ERROR_TRIGGERS.map((trigger) => checkpoints.timesOf(trigger, sinceMs)));
    this.#errors = new RateLimit(ERROR_LIMIT, times.flat());
  }

  /** Keeps the state in which something went wrong, unless that was done a moment ago or too often today. */
  async saveAfterError(trigger: (typeof ERROR_TRIGGERS)[number], error: ErrorText): Promise<void> {
    const { checkpoints, ports } = this.#parts;
    const nowMs = ports.now();
    if (this.#errors.isUsedUp(nowMs) || nowMs < this.#errors.restsUntilMs()) return;
    this.#errors.note(nowMs);
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

  /**
   * Saves everything, then goes on with a new agent and clean context, or ends the run for a new process to do so. If no new agent
   * can be made the old one goes on, as it is, until the next refresh. One that waits for a person is left as it is.
   */
  async refresh(): Promise<'refresh' | undefined> {
    const { checkpoints, live, tell, refreshMode } = this.#parts;
    if (live.state.loop.escalation !== null) return undefined;
    const from = await checkpoints.take({ type: 'recovery', trigger: 'refresh' });
    if (refreshMode === 'exit') return 'refresh';
    const agent = this.#tryCreate('refresh');
    if (agent === undefined) return undefined;
    live.clean();
    tell({ kind: 'refreshed', from, report: await live.renew(undefined, agent) });
    return undefined;
  }

  /** A new agent; one that cannot be made is told, and the old one is still there. */
  #tryCreate(trigger: 'refresh' | 'restore'): LoopAgent | undefined {
    const { live, tell } = this.#parts;
    try {
      const agent = live.create();
      this.#creationFailures = 0;
      return agent;
    } catch (error) {
      this.#creationFailures++;
      tell({ kind: 'agent_failed', trigger, error: errorText(error) });
      return undefined;
    }
  }

  /** Goes back to the last healthy state, or escalates. Returns until when the agent has to rest before it can. */
  async recoverFromDrift(): Promise<number> {
    const { live, checkpoints, ports, settings } = this.#parts;
    const { summary, sinceMs } = live.watch.reading;
    const drifted = await this.#saveDrifted();
    if (this.#restores.isUsedUp(ports.now())) {
      await this.escalate(
        `It drifted again after ${formatCount(settings.maxRestoresPerDay, 'restore')} within a day. ${summary}`,
      );
    } else if (ports.now() >= this.#restores.restsUntilMs()) {
      const healthy = await checkpoints.findHealthy(sinceMs);
      if (healthy === undefined) await this.escalate(`It drifts and was never saved healthy. ${summary}`);
      else return this.#tryRestore(healthy, { drifted, reason: summary });
    }
    return live.isDrifting ? this.#restores.restsUntilMs() : ports.now();
  }

  async #tryRestore(healthy: Checkpoint, why: Why): Promise<number> {
    const { manager, session, ports } = this.#parts;
    let earlier: Earlier;
    try {
      earlier = await readEarlier(manager, healthy, [session.branch]);
    } catch (error) {
      if (hasErrorCode(error, 'CORRUPT')) await this.escalate(`It drifts, and ${healthy.id} is damaged. ${why.reason}`);
      else if (!hasErrorCode(error, 'NOT_FOUND')) throw error; // deleted in this moment: there is another one
      return ports.now();
    }
    const agent = this.#tryCreate('restore');
    if (agent === undefined) return this.#restAfterFailedCreation();
    await this.#restore(earlier, agent, why);
    return ports.now();
  }

  /** The drifted agent must not go on, and there is no other: it is tried again a few times, then a person is called. */
  async #restAfterFailedCreation(): Promise<number> {
    const { ports, settings } = this.#parts;
    const failures = this.#creationFailures;
    if (failures >= settings.maxFailures)
      await this.escalate(
        `It drifts, and ${formatCount(failures, 'time')} no new agent could be made. See the event agent_failed.`,
      );
    return ports.now() + retryDelayMs(settings, failures);
  }

  /** Once for each drift, also if the process dies before it is dealt with. */
  async #saveDrifted(): Promise<CheckpointId> {
    const { live, checkpoints, session, tell } = this.#parts;
    const { turn } = live.state.loop;
    if (this.#drifted?.turn === turn) return this.#drifted.id;
    tell({ kind: 'drift', reading: live.watch.reading });
    const key = `${session.id} drift in turn ${turn}`;
    const id = await checkpoints.take({ type: 'recovery', trigger: 'drift', note: live.watch.reading.summary, key });
    this.#drifted = { turn, id };
    return id;
  }

  async #restore(earlier: Earlier, agent: LoopAgent, { drifted, reason }: Why): Promise<void> {
    const { live, ports } = this.#parts;
    const why = `You were brought back to an earlier state because you got nowhere. ${reason} Try another way.`;
    const metadata = { restoredFrom: earlier.from, drifted };
    await this.#bringBack({ ...earlier, kind: 'drift', why, metadata, agent }, () => {
      this.#restores.note(ports.now());
      live.changeLoop({ restoredAtMs: this.#restores.timesMs(ports.now()), workFailures: 0 });
      live.clean();
    });
  }

  /**
   * Goes back because a person says so, before the agent is made. The same as after a drift, but that short-term memory comes back, too,
   * and that restores are counted anew.
   */
  async restoreByHand(earlier: Earlier): Promise<SectionsReport> {
    const { live } = this.#parts;
    const why = 'A person brought you back to an earlier state.';
    const metadata = { restoredFrom: earlier.from };
    return this.#bringBack({ ...earlier, kind: 'restored', why, metadata }, () => {
      live.changeLoop({ escalation: null, restoredAtMs: [], workFailures: 0 });
      live.watch.reset();
      this.#restores = this.#restoreLimit([]);
    });
  }

  /**
   * Task, context and memory go back; the mailbox does not: what was handled stays handled, what waits goes on waiting. So a task
   * that came with a message handled since must stay, too.
   */
  async #bringBack({ metadata, agent, ...given }: Return, begin: () => void): Promise<SectionsReport> {
    const { live, checkpoints, tell } = this.#parts;
    const { from, state } = given;
    const { kept, problems } = readSections(state);
    const takeBack = this.#rememberDrift();
    const { text: note } = this.#goBack(kept, given);
    begin();
    const restored = new Map([...problems].filter(([section]) => section !== 'mailbox'));
    // A checkpoint asks the agent there is for its sections; where there is none, none is made before it is stored.
    const report = agent === undefined ? undefined : await live.renew(restored, agent);
    try {
      await checkpoints.take({ type: 'recovery', trigger: 'restored', note, metadata });
    } catch (error) {
      takeBack();
      throw error;
    }
    const told = report ?? (await live.renew(restored));
    tell({ kind: 'restored', from, report: told, note });
    return told;
  }

  /** Puts task, context and memory back, with a note on what was not undone. */
  #goBack(kept: Kept, { kind, why, from, state, recorded }: Omit<Return, 'metadata'>): RecoveryNote {
    const { live, ports } = this.#parts;
    const { mailbox } = live.state;
    const task = taskAfterDrift(kept.task, live.state.task);
    const handled = mailbox.processedCount - kept.mailbox.processedCount;
    const handledSince = handled > 0 ? mailbox.recentIds.slice(-handled) : [];
    live.change({ ...mindOf(kept), task });
    const calls = live.recall({ recorded, held: asStored(state).loop?.works ?? [] });
    const text = [
      why,
      ...describeCalls(calls),
      sentence('Handled since, and not handled again', handledSince),
      sentence('Done for them', countEach(calls.past)),
      ...(task !== null && task !== kept.task
        ? [`Your task "${task.id}" was given since; you have it from its beginning.`]
        : []),
    ];
    const note = { kind, atMs: ports.now(), text: text.filter(Boolean).join(' '), restoredFrom: from, handledSince };
    live.change(addNote(mindOf(live.state), note));
    return note;
  }

  /** A restore that was not stored did not happen: turns that went on from it could not be gone through again after a crash. */
  #rememberDrift(): () => void {
    const { live } = this.#parts;
    const { state, watch } = live;
    const { reading } = watch;
    const { restoredAtMs, workFailures, escalation } = state.loop;
    return () => {
      live.change(mindOf(state));
      live.changeLoop({ restoredAtMs, workFailures, escalation });
      watch.reading = reading;
      this.#restores = this.#restoreLimit(restoredAtMs);
    };
  }

  /** Says that a job was given up; too many messages that wait for a person are a reason to call one. */
  async giveUp(job: Job, error: ErrorText): Promise<void> {
    const { live, tell } = this.#parts;
    if (job.kind === 'work') tell({ kind: 'task_failed', error });
    else tell({ kind: 'set_aside', messageId: job.messageId, error });
    const { length } = live.state.mailbox.setAside;
    if (length >= MAX_SET_ASIDE) await this.escalate(`${length} messages are set aside.`);
  }

  /** Begins to count restores anew, after a person looked at the agent. */
  forgive(): void {
    const { live } = this.#parts;
    const { escalation } = live.state.loop;
    this.#restores = this.#restoreLimit([]);
    this.#creationFailures = 0;
    live.changeLoop({ escalation: null, restoredAtMs: [] });
    // A turn may be under way if nobody was called: its memory is its own.
    if (escalation !== null) live.clean();
  }

  /** Stops taking turns until a person says so. Messages are still accepted. */
  async escalate(reason: string): Promise<void> {
    const { live, checkpoints, ports, tell } = this.#parts;
    live.changeLoop({ escalation: { atMs: ports.now(), reason } });
    await checkpoints.tryTake({ type: 'recovery', trigger: 'escalated', note: reason });
    tell({ kind: 'escalated', reason });
  }
}

/** Calls that a note names of each kind. */
const MAX_CALLS = 10;

/** Says which calls of the turns that were undone are not made again, and which are. */
function describeCalls({ kept, dropped }: UndoneCalls): string[] {
  return [
    sentence('Done already, and not done again', countEach(kept)),
    sentence('Done again if you ask for it', countEach(dropped)),
  ];
}

function sentence(what: string, names: readonly string[]): string {
  return names.length > 0 ? `${what}: ${listOf(names)}.` : '';
}

/** Each of them once, with how often it is there. */
function countEach(calls: UndoneCalls['kept']): string[] {
  const counts = new Map<string, number>();
  for (const { name, label = name } of calls) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].map(([name, times]) => (times === 1 ? name : `${name} (${times} times)`));
}

function listOf(names: readonly string[]): string {
  const more = names.length - MAX_CALLS;
  return `${names.slice(0, MAX_CALLS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** How often something may happen. */
type RateLimitOptions = {
  /** Not again before this time has passed. */
  readonly cooldownMs: number;
  /** At most this often within a day. */
  readonly maxPerDay: number;
};

/** Says whether something may happen again, from when it happened before. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  #timesMs: readonly number[];

  constructor(options: RateLimitOptions, timesMs: readonly number[] = []) {
    this.#options = options;
    this.#timesMs = timesMs.toSorted((a, b) => a - b);
  }

  /** When it happened, within a day. What the clock, set back since, says is yet to come, counts as just now. */
  timesMs(nowMs: number): readonly number[] {
    this.#timesMs = this.#timesMs.map((timeMs) => Math.min(timeMs, nowMs)).filter((timeMs) => nowMs - timeMs < DAY_MS);
    return this.#timesMs;
  }

  isUsedUp(nowMs: number): boolean {
    return this.timesMs(nowMs).length >= this.#options.maxPerDay;
  }

  /** Until when it has to rest, as of the last look at the times; in the past if it need not. */
  restsUntilMs(): number {
    return (this.#timesMs.at(-1) ?? -Infinity) + this.#options.cooldownMs;
  }

  note(nowMs: number): void {
    this.#timesMs = [...this.timesMs(nowMs), nowMs];
  }
}
