import { apply, type Patches } from 'mutative';
import { ClosedError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { marksIn } from '../../../core/secret/left-out.ts';
import type { RestoreProblem } from '../../../manager/engine/loading.ts';
import type { OpenWork, Work } from '../../run/work.ts';
import {
  type AgentMind,
  addNote,
  cleanContext,
  isOver,
  type Job,
  type LoopAgentState,
  type LoopState,
  mindOf,
  NEW_LOOP,
} from '../state/agent-state.ts';
import type { ErrorText } from '../state/error-text.ts';
import { Mailbox } from '../state/mailbox.ts';
import {
  asStored,
  collectSections,
  EMPTY_SECTIONS,
  type OnSectionProblem,
  readSections,
  restoreSections,
  type SectionName,
  type SectionsReport,
} from '../state/sections.ts';
import type { Watch } from './drift-watch.ts';
import { checkCanWork, type LoopAgent } from './loop-agent.ts';
import type { OpenWorks, Undone, UndoneCalls } from './open-works.ts';

/** How a turn ended; recorded, so that it counts also if the process dies right after. */
export type TurnOutcome = {
  readonly turn: number;
  readonly job: Job;
  readonly atMs: number;
  /** Whether clean context was asked for while the turn went on; it begins with its end. */
  readonly isCleaned?: boolean;
} & (
  | {
      readonly status: 'done';
      readonly patches: Patches;
      /** Keys of calls of undone turns that it asked for. */
      readonly used?: readonly string[];
    }
  | {
      readonly status: 'failed';
      readonly error: ErrorText;
      readonly isFinal: boolean;
      /** What was done for a message that is set aside. */
      readonly work?: OpenWork;
    }
);

/** The turn under way. */
export type CurrentTurn = { readonly job: Job; readonly work: Work; readonly isCleanDue?: boolean };

type Problems = ReadonlyMap<SectionName, readonly RestoreProblem[]>;

type LiveParts = {
  readonly createAgent: () => LoopAgent;
  readonly watch: Watch;
  readonly works: OpenWorks;
  readonly mind?: Partial<AgentMind>;
  readonly nowMs: number;
  /** Hears of sections that the agent does not return. */
  readonly onProblem: OnSectionProblem;
};

/** An agent with its state in memory. Everything that happens to the state happens here, in one piece each. */
export class LiveAgent {
  readonly watch: Watch;
  readonly works: OpenWorks;
  readonly mailbox = new Mailbox();
  readonly onProblem: OnSectionProblem;
  readonly #createAgent: () => LoopAgent;
  #agent: LoopAgent | undefined;
  #mind: AgentMind;
  #loop: LoopState;
  /** What could not be read of the stored state; told with the first restore. */
  #problems: Problems = new Map();
  /** What stands in strings of the stored state in place of secrets. */
  leftOut = new Set<string>();
  current: CurrentTurn | undefined;
  /** Whether a turn works on a draft of the mind: until it is settled nothing else may change the mind. */
  isActing = false;
  /** Whether work that got nowhere has to wait before it goes on. */
  isWorkPaused = false;

  constructor({ createAgent, watch, works, mind, nowMs, onProblem }: LiveParts) {
    this.#createAgent = createAgent;
    this.watch = watch;
    this.works = works;
    this.onProblem = onProblem;
    this.#mind = freezeState({ ...mindOf(EMPTY_SECTIONS), ...mind });
    this.#loop = { ...NEW_LOOP, gridStartMs: nowMs };
  }

  get state(): LoopAgentState {
    const { task, ...mind } = this.#mind; // The mailbox stays second, as it is stored: what did not change is the same chunk.
    return { task, mailbox: this.mailbox.state, ...mind, loop: this.#loop };
  }

  get mind(): AgentMind {
    return this.#mind;
  }

  get loop(): LoopState {
    return this.#loop;
  }

  get isAwake(): boolean {
    return this.#agent !== undefined;
  }

  /** Takes over a stored state; the agent itself is made when it is first needed. */
  load(state: unknown): void {
    const stored = asStored(state);
    const { kept, problems } = readSections(stored);
    const { current, works = [], drift, ...loop } = { ...this.#loop, ...stored.loop };
    this.#mind = freezeState(mindOf(kept));
    this.mailbox.load(freezeState(kept.mailbox));
    this.#loop = freezeState({ ...loop, current: null, works: [], drift: null });
    this.#problems = problems;
    this.leftOut = marksIn(this.#mind); // a message that lost a secret is not handled at all
    this.works.load(works);
    this.current = current === null ? undefined : { ...current, work: this.#workOf(current.job) };
    if (drift !== null) this.watch.restore(drift);
  }

  /** Makes an agent; it is asleep until `renew`. */
  create(): LoopAgent {
    const agent = this.#createAgent();
    checkCanWork(agent, this.#mind.task);
    return agent;
  }

  /** Makes a new agent and hands it the state; whatever the old one held besides is gone. */
  async renew(problems: Problems = this.#problems, agent: LoopAgent = this.create()): Promise<SectionsReport> {
    this.#agent = agent;
    const report = await restoreSections(agent.sections, this.state, problems);
    this.#problems = new Map();
    return report;
  }

  /** The agent; only once it is awake. */
  open(): LoopAgent {
    if (this.#agent === undefined) throw new ClosedError('The agent is not awake yet.');
    return this.#agent;
  }

  /** What a checkpoint taken now holds: the state as of the last turn, and what was done of the works that are not over. */
  capture(): LoopAgentState {
    if (this.current === undefined) this.change(collectSections(this.#agent?.sections, this.state, this.onProblem));
    const { job, isCleanDue } = this.current ?? {};
    const current = job === undefined ? null : { job, ...(isCleanDue === true && { isCleanDue }) };
    // What a watch remembers is large, and worth it only where there is evidence to lose.
    const drift = this.watch.reading.status === 'healthy' ? null : (this.watch.snapshot() ?? null);
    return { ...this.state, loop: { ...this.#loop, current, works: this.works.records, drift } };
  }

  change({ mailbox, ...mind }: Partial<Omit<LoopAgentState, 'loop'>>): void {
    this.#mind = mindOf({ ...this.#mind, ...mind });
    if (mailbox !== undefined && mailbox !== this.mailbox.state) this.mailbox.load(mailbox);
  }

  changeLoop(part: Partial<LoopState>): void {
    this.#loop = { ...this.#loop, ...part };
  }

  /** Begins with clean context, after the turn under way if there is one, and is not blamed for what was before. */
  clean(): void {
    if (this.isActing && this.current !== undefined) this.current = { ...this.current, isCleanDue: true };
    else this.change(cleanContext(this.#mind));
    this.watch.reset();
  }

  /** What is to be done next, by the state alone. */
  nextJob(): Job | null {
    if (this.#loop.escalation !== null || this.isDrifting) return null;
    const message = this.mailbox.first;
    if (message !== undefined) return { kind: 'message', messageId: message.id };
    const hasWork = this.#mind.task?.status === 'active' && this.#agent?.work !== undefined;
    return hasWork && !this.isWorkPaused ? { kind: 'work' } : null;
  }

  get nextTurn(): number {
    return this.#loop.turn + 1;
  }

  /** Whether it drifts and nobody was called for that yet. */
  get isDrifting(): boolean {
    return this.watch.reading.status === 'drifting' && this.#loop.escalation === null;
  }

  /** Begins a turn at a job, unless one has begun. */
  start(job: Job): CurrentTurn {
    this.current ??= { job, work: this.#workOf(job) };
    return this.current;
  }

  #workOf(job: Job): Work {
    return this.works.open(job, { task: this.#mind.task, turn: this.nextTurn });
  }

  /** Goes on after its task went back; returns what becomes of the calls of the turns that were undone. */
  recall(undone: Undone): UndoneCalls {
    const next = { task: this.#mind.task, turn: this.nextTurn };
    const calls = this.works.recall(undone, { ...next, current: this.current?.work });
    if (this.current !== undefined) this.current = { ...this.current, work: this.#workOf(this.current.job) };
    return calls;
  }

  /** Forgets a message that could not be made durable; its sender knows, and will try again. */
  refuse(id: string): void {
    const isTaken = this.current?.job.kind === 'message' && this.current.job.messageId === id;
    if (!isTaken) this.mailbox.remove(id);
  }

  /** Lets a turn count. Told of the same turn again, it does nothing. Returns the outcome, with what belongs to it since. */
  settle(given: TurnOutcome): TurnOutcome {
    if (given.turn <= this.#loop.turn) return given;
    const outcome = this.current?.isCleanDue === true ? { ...given, isCleaned: true } : given;
    const work = this.current?.work ?? this.#workOf(outcome.job);
    this.current = undefined;
    this.isActing = false;
    if (outcome.status === 'done') this.#settleDone(outcome, work);
    else this.#settleFailed(outcome, work);
    if (outcome.isCleaned === true) this.change(cleanContext(this.#mind));
    this.changeLoop({ turn: outcome.turn });
    return outcome;
  }

  #settleDone({ turn, job, atMs, patches, used = [] }: TurnOutcome & { status: 'done' }, work: Work): void {
    this.change(freezeState(apply(this.#mind, patches, { mutable: false }) as AgentMind));
    const { task } = this.#mind;
    this.works.finish(work, used, { task, turn: turn + 1 });
    if (task === null || isOver(task)) this.works.settleTasks();
    if (job.kind === 'message') this.mailbox.finish(job.messageId, atMs);
    else this.changeLoop({ workFailures: 0 });
  }

  #settleFailed({ job, isFinal, error, atMs, work: done }: TurnOutcome & { status: 'failed' }, work: Work): void {
    if (isFinal) this.works.settle(work.name);
    else work.again();
    if (job.kind === 'work') this.changeLoop({ workFailures: isFinal ? 0 : this.#loop.workFailures + 1 });
    else if (!isFinal) this.mailbox.countFailure(job.messageId);
    else this.mailbox.putAside(job.messageId, { error, atMs, ...(done !== undefined && { work: done }) });
    const { task } = this.#mind;
    if (job.kind !== 'work' || !isFinal || task === null) return;
    const text = `The task "${task.id}" was given up: ${error.message}`;
    this.change(addNote({ ...this.#mind, task: { ...task, status: 'failed' } }, { kind: 'task_failed', atMs, text }));
  }

  failuresOf(job: Job): number {
    if (job.kind === 'work') return this.#loop.workFailures;
    return this.mailbox.findPending(job.messageId)?.failures ?? 0;
  }
}
