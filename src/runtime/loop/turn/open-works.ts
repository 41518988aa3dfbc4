import { ClosedError } from '../../../core/errors.ts';
import { type MadeCall, newWork, type OpenWork, recallInto, Work, type WorkSession } from '../../run/work.ts';
import type { AgentTask, Job } from '../state/agent-state.ts';
import { isNoteOfCall, withoutRolledBack } from './operation.ts';

type NamedCall = Pick<MadeCall, 'name' | 'label'>;

/**
 * What becomes of the calls of turns that a restore undid: those that are answered as they were if they are asked for again, those that
 * are made again, and those of messages that are handled, so that nobody asks for them.
 */
export type UndoneCalls = { readonly [Kind in 'kept' | 'dropped' | 'past']: readonly NamedCall[] };

/** What an agent did that a restore undoes: calls that were recorded since, and works that were open at the checkpoint. */
export type Undone = { readonly recorded: readonly MadeCall[]; readonly held: readonly OpenWork[] };

/** The task that goes on, and the turn that is next. */
type NextWork = { readonly task: AgentTask | null; readonly turn: number };

/** The works of a loop that are not over: its message, its task. A turn is an attempt at one of them. */
export class OpenWorks {
  readonly #session: WorkSession;
  readonly #works = new Map<string, Work>();

  constructor(session: WorkSession = NO_SESSION) {
    this.#session = session;
  }

  /** What a checkpoint holds of them. */
  get records(): readonly OpenWork[] {
    return [...this.#works.values()].map((work) => work.record);
  }

  /** Takes up works as a checkpoint, or a message that was set aside, held them. */
  load(saved: readonly OpenWork[]): void {
    for (const work of saved) this.#works.set(work.name, Work.open(this.#session, work));
  }

  /** The work of a job: the one that an earlier attempt left, or a new one. */
  open(job: Job, { task, turn }: NextWork): Work {
    if (job.kind === 'message') return this.#open(`${MESSAGE}${job.messageId}`);
    for (const { name } of this.#tasks) if (ownerOf(name) !== taskOwner(task)) this.settle(name);
    return this.#tasks[0] ?? this.#open(this.#newTask({ task, turn }));
  }

  get #tasks(): readonly Work[] {
    return [...this.#works.values()].filter(({ name }) => name.startsWith(TASK));
  }

  #open(given: string | OpenWork): Work {
    const name = typeof given === 'string' ? given : given.name;
    const work = this.#works.get(name) ?? Work.open(this.#session, given);
    this.#works.set(name, work);
    return work;
  }

  /** Lets go of a work that is over, or is kept elsewhere. */
  settle(name: string): void {
    this.#works.delete(name);
    this.#session.settleWork(name);
  }

  /** Lets go of a work whose turn ended. What it recalled and did not use is there for the next turn at its task. */
  finish(work: Work, used: readonly string[], next: NextWork): void {
    this.settle(work.name);
    const left = ownerOf(work.name) === taskOwner(next.task) ? work.unused(used) : [];
    if (left.length > 0) this.#open(recallInto(this.#newTask(next), left));
  }

  settleTasks(): void {
    for (const { name } of this.#tasks) this.settle(name);
  }

  #newTask({ task, turn }: NextWork): OpenWork {
    return newWork(`${taskOwner(task)}${turn}`, this.#session.branch);
  }

  /**
   * Goes on after a restore. Messages are not undone: those that are open are tried again, without what ended. The task goes back,
   * so the calls of all its turns that were undone belong to it from now on.
   */
  recall(
    { recorded, held }: Undone,
    { current, ...next }: NextWork & { readonly current: Work | undefined },
  ): UndoneCalls {
    current?.again(); // the attempt under way ended
    const messages = [...this.#works.values()].filter(({ name }) => name.startsWith(MESSAGE));
    const open = messages.map((work) => work.afterDrift());
    const [last] = this.#tasks;
    const known = held.flatMap((work) => Work.open(this.#session, work).made);
    const made = this.#standing([...known, ...recorded, ...(last?.made ?? [])]);
    const calls = made.filter(({ work }) => ownerOf(work) === taskOwner(next.task));
    this.settleTasks();
    const work = recallInto({ ...this.#newTask(next), attempt: last?.attempt ?? 1 }, calls);
    if (calls.length > 0) this.#open(work);
    const isKept = new Set(work.done.map(({ key }) => key));
    return {
      kept: [
        ...calls.filter(({ key }) => isKept.has(key)),
        ...open.flatMap(({ kept }) => kept).filter((call) => !isNoteOfCall(call)),
      ],
      dropped: [
        ...calls.filter(({ isOver, key }) => isOver && !isKept.has(key)),
        ...open.flatMap(({ dropped }) => dropped),
      ],
      past: made.filter(({ work: name, isOver }) => isOver && name.startsWith(MESSAGE) && !this.#works.has(name)),
    };
  }

  /** Each call once, as it is known last, without those that were taken back. */
  #standing(calls: readonly MadeCall[]): readonly MadeCall[] {
    const known = new Map<string, MadeCall>();
    for (const call of calls) {
      const before = known.get(call.key);
      known.set(call.key, before?.isOver === true && !call.isOver ? before : { ...before, ...call });
    }
    const owners = new Set([...known.values()].map(({ work }) => ownerOf(work)));
    return [...owners].flatMap((owner) => {
      const own = [...known.values()].filter(({ work }) => ownerOf(work) === owner);
      const standing = withoutRolledBack(own, (value) => this.#session.digestOf(value));
      return standing.filter((call) => !isNoteOfCall(call));
    });
  }
}

const MESSAGE = 'message ';
const TASK = 'task ';

/** What the works of all turns at a task have in common. */
function taskOwner(task: AgentTask | null): string {
  return `${TASK}${task?.id ?? ''} from turn `;
}

/** The message or the task that a work belongs to. */
function ownerOf(work: string): string {
  return work.startsWith(TASK) ? work.replace(/\d+$/, '') : work;
}

const refuse = (): never => {
  throw new ClosedError('An agent that is only looked at makes no calls.');
};

/** That of an agent that is looked at and takes no turns. */
const NO_SESSION: WorkSession = {
  id: 'none' as WorkSession['id'],
  branch: 'none',
  step: refuse,
  digestOf: refuse,
  finishedStepsOf: refuse,
  settleWork: () => undefined,
};
