import { hasErrorCode } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { type Earlier, readEarlier } from './hand-restore.ts';
import { type LoopParts, retryDelayMs } from './loop-options.ts';
import { addNote, type Job, mindOf, type RecoveryNote, taskAfterDrift } from './state/agent-state.ts';
import { type ErrorText, errorText } from './state/error-text.ts';
import { asStored, readSections, type SectionsReport } from './state/sections.ts';
import { withinDay } from './turn/agent-checkpoints.ts';
import type { LoopAgent } from './turn/loop-agent.ts';
import type { UndoneCalls } from './turn/open-works.ts';

/** Messages that wait for a person, until the loop does, too. */
const MAX_SET_ASIDE = 100;

/** What an agent is brought back to, why, and the one that goes on from there, if it is made already. */
type Return = Earlier & {
  readonly kind: RecoveryNote['kind'];
  readonly why: string;
  readonly drifted?: CheckpointId;
  readonly agent?: LoopAgent;
};

/** Brings an agent back: with clean context after a while, from its last healthy state when it drifts. */
export class Recovery {
  readonly #parts: LoopParts;
  #drifted: { readonly turn: number; readonly id: CheckpointId } | undefined;
  /** In a row. */
  #creationFailures = 0;

  constructor(parts: LoopParts) {
    this.#parts = parts;
  }

  /**
   * Saves everything, then goes on with a new agent and clean context, or ends the run for a new process to do so. If no new agent
   * can be made the old one goes on, as it is, until the next refresh. One that waits for a person is left as it is.
   */
  async refresh(): Promise<'refresh' | undefined> {
    const { checkpoints, live, tell, refreshMode } = this.#parts;
    if (live.loop.escalation !== null) return undefined;
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
    const { live, ports, settings } = this.#parts;
    const drifted = await this.#saveDrifted();
    const restoredAtMs = withinDay(live.loop.restoredAtMs, ports.now());
    live.changeLoop({ restoredAtMs });
    const restsUntilMs = (restoredAtMs.at(-1) ?? -Infinity) + settings.restoreCooldownMs;
    if (restoredAtMs.length >= settings.maxRestoresPerDay)
      await this.escalate(
        `It drifted again after ${formatCount(settings.maxRestoresPerDay, 'restore')} within a day. ${live.watch.reading.summary}`,
      );
    else if (ports.now() >= restsUntilMs) return this.#goBackToHealth(drifted);
    return live.isDrifting ? restsUntilMs : ports.now();
  }

  async #goBackToHealth(drifted: CheckpointId): Promise<number> {
    const { live, ports, settings } = this.#parts;
    const { summary, sinceMs } = live.watch.reading;
    const earlier = await this.#readHealthy(sinceMs, summary);
    if (earlier === undefined) return ports.now();
    const agent = this.#tryCreate('restore');
    if (agent !== undefined) {
      const why = `You were brought back to an earlier state because you got nowhere. ${summary} Try another way.`;
      await this.#bringBack({ ...earlier, kind: 'drift', why, drifted, agent }, () => {
        live.changeLoop({ restoredAtMs: [...live.loop.restoredAtMs, ports.now()], workFailures: 0 });
        live.clean();
      });
      return ports.now();
    }
    // The drifted agent must not go on, and there is no other: it is tried again a few times, then a person is called.
    const failures = this.#creationFailures;
    if (failures >= settings.maxFailures)
      await this.escalate(
        `It drifts, and ${formatCount(failures, 'time')} no new agent could be made. See the event agent_failed.`,
      );
    return ports.now() + retryDelayMs(settings, failures);
  }

  /** The last healthy state; without one a person is called, but if it was deleted in this moment there is another one. */
  async #readHealthy(sinceMs: number | undefined, summary: string): Promise<Earlier | undefined> {
    const { manager, session, checkpoints } = this.#parts;
    const healthy = await checkpoints.findHealthy(sinceMs);
    try {
      if (healthy !== undefined) return await readEarlier(manager, healthy, [session.branch]);
      await this.escalate(`It drifts and was never saved healthy. ${summary}`);
    } catch (error) {
      if (hasErrorCode(error, 'CORRUPT')) await this.escalate(`It drifts, and ${healthy?.id} is damaged. ${summary}`);
      else if (!hasErrorCode(error, 'NOT_FOUND')) throw error;
    }
    return undefined;
  }

  /** Once for each drift, also if the process dies before it is dealt with. */
  async #saveDrifted(): Promise<CheckpointId> {
    const { live, checkpoints, session, tell } = this.#parts;
    const { turn } = live.loop;
    if (this.#drifted?.turn === turn) return this.#drifted.id;
    tell({ kind: 'drift', reading: live.watch.reading });
    const key = `${session.id} drift in turn ${turn}`;
    const id = await checkpoints.take({ type: 'recovery', trigger: 'drift', note: live.watch.reading.summary, key });
    this.#drifted = { turn, id };
    return id;
  }

  /**
   * Goes back because a person says so, before the agent is made. The same as after a drift, but that short-term memory comes back, too,
   * and that restores are counted anew.
   */
  async restoreByHand(earlier: Earlier): Promise<SectionsReport> {
    const { live } = this.#parts;
    return this.#bringBack(
      { ...earlier, kind: 'restored', why: 'A person brought you back to an earlier state.' },
      () => {
        live.changeLoop({ escalation: null, restoredAtMs: [], workFailures: 0 });
        live.watch.reset();
      },
    );
  }

  /**
   * Task, context and memory go back; the mailbox does not: what was handled stays handled, what waits goes on waiting. So a task
   * that came with a message handled since must stay, too. A return that was not stored did not happen: turns that went on from it
   * could not be gone through again after a crash.
   */
  async #bringBack({ drifted, agent, ...given }: Return, begin: () => void): Promise<SectionsReport> {
    const { live, checkpoints, tell } = this.#parts;
    const { kept, problems } = readSections(given.state);
    const { mind, watch } = live;
    const { reading } = watch;
    const { restoredAtMs, workFailures, escalation } = live.loop;
    const { text: note } = this.#goBack(kept, given);
    begin();
    const restored = new Map([...problems].filter(([section]) => section !== 'mailbox'));
    // A checkpoint asks the agent there is for its sections; where there is none, none is made before it is stored.
    const report = agent === undefined ? undefined : await live.renew(restored, agent);
    const metadata = { restoredFrom: given.from, ...(drifted !== undefined && { drifted }) };
    try {
      await checkpoints.take({ type: 'recovery', trigger: 'restored', note, metadata });
    } catch (error) {
      live.change(mind);
      live.changeLoop({ restoredAtMs, workFailures, escalation });
      watch.reading = reading;
      throw error;
    }
    const told = report ?? (await live.renew(restored));
    tell({ kind: 'restored', from: given.from, report: told, note });
    return told;
  }

  /** Puts task, context and memory back, with a note on what was not undone. */
  #goBack(kept: ReturnType<typeof readSections>['kept'], { kind, why, from, state, recorded }: Return): RecoveryNote {
    const { live, ports } = this.#parts;
    const task = taskAfterDrift(kept.task, live.mind.task);
    const handledSince = live.mailbox.handledSince(kept.mailbox.processedCount);
    live.change({ ...mindOf(kept), task });
    const calls = live.recall({ recorded, held: asStored(state).loop?.works ?? [] });
    const isOtherTask = task !== null && task !== kept.task;
    const text = [
      why,
      sentence('Done already, and not done again', countEach(calls.kept)),
      sentence('Done again if you ask for it', countEach(calls.dropped)),
      sentence('Handled since, and not handled again', handledSince),
      sentence('Done for them', countEach(calls.past)),
      isOtherTask ? `Your task "${task.id}" was given since; you have it from its beginning.` : '',
    ];
    const note = { kind, atMs: ports.now(), text: text.filter(Boolean).join(' '), restoredFrom: from, handledSince };
    live.change(addNote(live.mind, note));
    return note;
  }

  /** Says that a job was given up; too many messages that wait for a person are a reason to call one. */
  async giveUp(job: Job, error: ErrorText): Promise<void> {
    const { live, tell } = this.#parts;
    if (job.kind === 'work') tell({ kind: 'task_failed', error });
    else tell({ kind: 'set_aside', messageId: job.messageId, error });
    const { length } = live.mailbox.setAside;
    if (length >= MAX_SET_ASIDE) await this.escalate(`${length} messages are set aside.`);
  }

  /** Begins to count restores anew, after a person looked at the agent. */
  forgive(): void {
    const { live } = this.#parts;
    const { escalation } = live.loop;
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

function sentence(what: string, names: readonly string[]): string {
  const more = names.length - MAX_CALLS;
  const list = `${names.slice(0, MAX_CALLS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return names.length > 0 ? `${what}: ${list}.` : '';
}

/** Each of them once, with how often it is there. */
function countEach(calls: UndoneCalls['kept']): string[] {
  const counts = new Map<string, number>();
  for (const { name, label = name } of calls) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].map(([name, times]) => (times === 1 ? name : `${name} (${times} times)`));
}
