import { ClosedError } from '../../../core/errors.ts';
import { type DoneCall, type OpenWork, Work, type WorkSession } from '../../run/work.ts';
import type { AgentTask, Job } from './agent-state.ts';

/** What is known of the calls of works that a drift ended. */
export type CallsAfterDrift = { readonly kept: readonly DoneCall[]; readonly dropped: readonly DoneCall[] };

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
  open(job: Job, { task, turn }: { readonly task: AgentTask | null; readonly turn: number }): Work {
    if (job.kind === 'message') return this.#open(`message ${job.messageId}`);
    const prefix = `task ${task?.id ?? ''} from turn `;
    const tasks = [...this.#works.keys()].filter((name) => name.startsWith('task '));
    for (const name of tasks) if (!name.startsWith(prefix)) this.settle(name);
    return this.#open(tasks.find((name) => name.startsWith(prefix)) ?? `${prefix}${turn}`);
  }

  #open(name: string): Work {
    const work = this.#works.get(name) ?? Work.open(this.#session, name);
    this.#works.set(name, work);
    return work;
  }

  /** Lets go of a work that is over, or is kept elsewhere. */
  settle(name: string): void {
    this.#works.delete(name);
    this.#session.settleWork(name);
  }

  /** Another attempt begins at each; answers what will not be done again, and what will. */
  afterDrift(): CallsAfterDrift {
    const all = [...this.#works.values()].map((work) => work.afterDrift());
    return { kept: all.flatMap(({ kept }) => kept), dropped: all.flatMap(({ dropped }) => dropped) };
  }
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
