import { hasErrorCode, messageOf } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/effect-log.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import { SessionEffects } from '../agent/effects.ts';
import {
  createRecall,
  type Lesson,
  learn,
  type MemoryOption,
  parseRunMemory,
  type RunMemory,
  unsavedLessons,
} from '../agent/run-memory.ts';
import type { Difference } from '../run/differences.ts';
import { fingerprintOf, type TeamFacts } from '../run/team-facts.ts';
import type { Fleet } from './fleet.ts';
import { FleetAnswers } from './fleet-answers.ts';
import { FleetLoop, type FleetStop, type FleetTrigger } from './fleet-loop.ts';
import type { FleetRecord, TaskLedger } from './fleet-state.ts';
import type { ToolCallEvent } from './gated-effects.ts';
import { wordRequest } from './ledger-prompts.ts';
import type { ProgressLedger } from './progress-ledger.ts';
import { type AskFleet, Questions } from './questions.ts';

/** What a run may use besides its fleet. */
export type FleetRunOptions = {
  readonly userId?: string;
  /** Asks people at once. Without it, or without an answer, the run stops and waits. */
  readonly ask?: AskFleet;
  readonly signal?: AbortSignal;
  readonly onText?: (speaker: string, delta: string) => void;
  readonly onMessage?: (message: ChatMessage) => void;
  readonly onTaskLedger?: (ledger: TaskLedger) => void;
  readonly onProgressLedger?: (ledger: ProgressLedger) => void;
  /** Called before tools and code, also when their result is taken from a recording. */
  readonly onToolCall?: (call: ToolCallEvent) => void;
  /** Called when a checkpoint is durable. */
  readonly onCheckpoint?: (checkpoint: Checkpoint, fleet: Fleet) => void | Promise<void>;
  /** Long-term memory: fills `{memory}` in prompts, and learns what people and agents with the `store` flag say. */
  readonly memory?: MemoryOption;
  /** Said of every checkpoint of the run. */
  readonly metadata?: Readonly<Record<string, unknown>>;
};

/** What came of a run. */
export type FleetRunResult = FleetStop & {
  readonly sessionId: string;
  readonly branch: string;
  /** The last checkpoint; undefined if none could be stored. */
  readonly checkpointId: CheckpointId | undefined;
  readonly taskLedger: TaskLedger | null;
  readonly progressLedger: ProgressLedger | null;
  readonly messages: readonly ChatMessage[];
  readonly rounds: number;
  readonly stalls: number;
  readonly resets: number;
  readonly totals: AgentTotals;
  /** When it is worth resuming a fleet that waits, if nobody answers before. */
  readonly wakeAtMs?: number;
  /** How the code differs from the checkpoint that the run went on from. */
  readonly differences: readonly Difference[];
  /** Saves that failed. The run went on: what it did is in the next checkpoint. */
  readonly failedSaves: readonly unknown[];
};

/** Where a fleet works. */
export type FleetHold = {
  readonly checkpoints: CheckpointManager;
  readonly session: Session;
  readonly mode?: EffectMode | undefined;
  /** The first checkpoint is about this: the fleet was changed before it went on. */
  readonly first?: FleetTrigger | undefined;
  /** The code that it runs with. */
  readonly facts: TeamFacts;
  readonly differences?: readonly Difference[];
};

/** What the first checkpoint is about, if the fleet was changed before it went on: without it a crash would take the change along. */
export function firstTrigger({
  prompt,
  rounds,
}: {
  readonly prompt?: string;
  readonly rounds?: number;
}): FleetTrigger | undefined {
  if (prompt !== undefined) return 'resumed';
  return rounds === undefined ? undefined : 'fleet_continued';
}

/** Lets a fleet work in a session: every round is saved, every outside call recorded. */
export async function holdFleet(
  fleet: Fleet,
  { checkpoints, session, mode = 'live', first, facts, differences = [] }: FleetHold,
  options: FleetRunOptions,
): Promise<FleetRunResult> {
  const place = { sessionId: session.id, branch: session.branch };
  const userId = options.userId ?? session.head?.userId;
  const memory = parseRunMemory(options.memory, userId);
  const keeper = new CheckpointKeeper(fleet, session, { ...options, userId, memory, facts });
  await keeper.begin(first);
  const { callbacks } = fleet.record.settings;
  const { ask, signal, onText, onMessage, onTaskLedger, onProgressLedger, onToolCall } = options;
  const questions = new Questions({
    fleet,
    answers: new FleetAnswers(checkpoints),
    place,
    ports: checkpoints.engine.ports,
    isLive: mode === 'live',
    ask,
    signal,
  });
  const stop = await new FleetLoop(fleet, {
    effects: new SessionEffects(session),
    save: (trigger, error) => keeper.save(trigger, error),
    questions,
    signal,
    recall: createRecall(memory, session, () => describeWork(fleet.record)),
    onText: callbacks.streaming ? onText : undefined,
    onMessage: (message) => {
      keeper.hear(message);
      onMessage?.(message);
    },
    onTaskLedger,
    onProgressLedger: callbacks.progressLedger ? onProgressLedger : undefined,
    onToolCall: callbacks.toolCalls ? onToolCall : undefined,
  }).run();
  const { failed: failedSaves } = keeper;
  return { ...stop, ...place, ...describeRun(fleet, stop), checkpointId: session.head?.id, differences, failedSaves };
}

function describeWork(record: FleetRecord) {
  return { task: wordRequest(record), plan: record.taskLedger?.plan };
}

function describeRun({ record, totals }: Fleet, stop: FleetStop) {
  const { taskLedger, progressLedger, messages, rounds, stalls, resets } = record;
  const request = stop.status === 'waiting' ? stop.request : undefined;
  const wakeAtMs = request?.onTimeout === 'reject' ? request.deadlineMs : undefined;
  return {
    taskLedger,
    progressLedger,
    messages,
    rounds,
    stalls,
    resets,
    totals,
    ...(wakeAtMs !== undefined && { wakeAtMs }),
  };
}

type KeeperOptions = Omit<FleetRunOptions, 'memory' | 'userId'> & {
  readonly userId: string | undefined;
  readonly memory: RunMemory | undefined;
  readonly facts: TeamFacts;
};

/** Saves a fleet, and tells those who want to know. */
class CheckpointKeeper {
  readonly failed: unknown[] = [];
  readonly #fleet: Fleet;
  readonly #session: Session;
  readonly #options: KeeperOptions;
  /** What was said since the last checkpoint. */
  #heard: Lesson[] = [];

  constructor(fleet: Fleet, session: Session, options: KeeperOptions) {
    this.#fleet = fleet;
    this.#session = session;
    this.#options = options;
  }

  /** Saves what was changed before the fleet goes on, unless it has ended. */
  async begin(first: FleetTrigger | undefined): Promise<void> {
    await this.remember(); // a killed run may have saved a round without learning it
    if (first !== undefined && this.#fleet.record.end === null) await this.save(first);
  }

  async save(trigger: FleetTrigger, error?: unknown): Promise<void> {
    try {
      await this.#session.save(this.#fleet.saveState(), describeSave(this.#fleet, { trigger, error }, this.#options));
    } catch (failure) {
      // The disk may be back at the next round; whoever lost the branch must stop.
      if (!hasErrorCode(failure, 'STORAGE')) throw failure;
      this.failed.push(failure);
      return;
    }
    const { head } = this.#session;
    if (head !== undefined) await this.#teach([...findRequest(this.#fleet, head.trigger), ...this.#heard], head);
    this.#heard = [];
    if (this.#session.head !== undefined) await this.#options.onCheckpoint?.(this.#session.head, this.#fleet);
  }

  /** Notes what an agent said, for the next checkpoint to teach. */
  hear(message: ChatMessage): void {
    const speaker = this.#fleet.agent(message.name);
    if (speaker !== undefined) this.#heard.push({ message, speaker: speaker.saveState() });
  }

  /** Lets long-term memory learn what the head was saved with, if a killed run did not; a prompt may have come since. */
  async remember(): Promise<void> {
    const { head, branch } = this.#session;
    if (head?.branch !== branch) return;
    const said = this.#fleet.record.messages.flatMap((message) => {
      const speaker = this.#fleet.agent(message.name)?.saveState();
      return speaker === undefined ? [] : [{ message, speaker }];
    });
    const unsaved = unsavedLessons(said, head.trigger === 'round_completed');
    await this.#teach([...findRequest(this.#fleet, head.trigger), ...unsaved], head);
  }

  /** What memory cannot learn is told, and stops nothing. */
  async #teach(lessons: readonly Lesson[], head: Checkpoint): Promise<void> {
    const { memory } = this.#options;
    if (memory === undefined) return;
    await learn(memory, lessons, head).catch((error: unknown) => this.failed.push(error));
  }
}

/** What a person asked that a checkpoint was saved for. */
function findRequest({ record: { task, followUps } }: Fleet, trigger: string | undefined): Lesson[] {
  if (trigger !== 'fleet_start' && trigger !== 'resumed') return [];
  const content = trigger === 'resumed' ? (followUps.at(-1) ?? task) : task;
  return [{ message: { name: PERSON, content }, speaker: undefined }];
}

const STATUS: Readonly<Record<FleetTrigger, string>> = {
  fleet_start: 'initializing',
  plan_created: 'running',
  replanned: 'running',
  round_completed: 'running',
  resumed: 'running',
  fleet_continued: 'running',
  waiting_for_input: 'waiting_for_input',
  run_failed: 'error',
  fleet_end: 'completed',
};

const SUMMARY_CHARS = 200;

/** What was said last: the answer, a message, the plan, or the task. */
function summarise({ end, messages, taskLedger, task, settings }: FleetRecord): string {
  const byOrchestrator = end?.answer || (messages.length === 0 && taskLedger?.plan);
  if (byOrchestrator) return `${settings.orchestratorName}: ${byOrchestrator}`;
  const { name, content } = messages.at(-1) ?? { name: PERSON, content: task };
  return `${name}: ${content}`;
}

function describeSave(
  fleet: Fleet,
  { trigger, error }: { readonly trigger: FleetTrigger; readonly error: unknown },
  { userId, metadata, facts }: Pick<KeeperOptions, 'userId' | 'metadata' | 'facts'>,
): SaveOptions {
  const { rounds, stalls, resets, phase, end } = fleet.record;
  const place = { round: rounds, stalls, resets, phase, ...(end !== null && { endReason: end.reason }) };
  return {
    type: trigger === 'run_failed' ? 'recovery' : 'auto',
    trigger,
    status: STATUS[trigger],
    ...(userId !== undefined && { userId }),
    ...(error !== undefined && { reason: messageOf(error) }),
    contextSummary: summarise(fleet.record).slice(0, SUMMARY_CHARS),
    fingerprint: fingerprintOf(facts, fleet.saveState()),
    metadata: { ...metadata, ...place },
  };
}
