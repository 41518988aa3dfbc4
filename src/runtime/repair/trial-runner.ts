import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { type AgentTotals, NO_TOTALS } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import { findDivergence } from './align-messages.ts';
import { holdBranch, type RepairParts, resumeBranch } from './hold-branch.ts';
import type { Target } from './target.ts';
import { subtractTotals } from './totals.ts';
import type { TrialOptions } from './trial-options.ts';
import type { TrialArm, TrialDivergence, TrialRun } from './trial-report.ts';

/** What all runs of a trial share. */
export type TrialPlan = {
  readonly parts: RepairParts;
  readonly name: string;
  /** Tells trials of one name apart that are about different things. */
  readonly key: string;
  readonly targets: Readonly<Record<TrialArm, Target>>;
  readonly options: TrialOptions;
  readonly base: { readonly messages: number; readonly totals: AgentTotals };
  /** How the conversation went before. */
  readonly original: readonly ChatMessage[];
};

/** Which run of which kind. */
export type TrialJob = { readonly arm: TrialArm; readonly run: number };

/** A run with all that was said in it. */
export type HeldRun = { readonly run: TrialRun; readonly messages: readonly ChatMessage[] };

type Judged = Pick<TrialRun, 'outcome' | 'score' | 'note' | 'error'>;

/** Makes the runs of a trial, each in its own branch, or finds them where they were left. */
export class TrialRunner {
  readonly #plan: TrialPlan;

  constructor(plan: TrialPlan) {
    this.#plan = plan;
  }

  /** Throws if a run of this name is about something else. */
  async check(jobs: readonly TrialJob[]): Promise<void> {
    for (const job of jobs) await this.#find(job);
  }

  /** Makes one run and has it judged. Whatever goes wrong is its outcome. */
  async hold(job: TrialJob): Promise<HeldRun> {
    let branch = branchName(this.#plan.name, job, 1);
    try {
      const found = await this.#find(job);
      branch = found.branch;
      const result = await this.#run(job, found);
      return this.#describe(job, result, { ...(await this.#judge(result)), isReused: found.isEnded });
    } catch (error) {
      return { run: this.#describeFailure(job, branch, error), messages: [] };
    }
  }

  async #run({ arm, run }: TrialJob, { branch, headId }: FoundRun): Promise<ChatRunResult> {
    const { parts, name, key, targets, options } = this.#plan;
    const target = targets[arm];
    const metadata = { ...options.metadata, trial: { name, arm, run, key } };
    const settings = { logs: false, ...options, metadata, branch } as const;
    const result = await (headId === undefined
      ? holdBranch(parts, target, settings)
      : resumeBranch(parts, { target, branch, headId }, settings));
    return { ...result, newMessages: result.messages.length - this.#plan.base.messages };
  }

  /** The branch of a run that was begun, or a free name. A branch that was forked and not begun is left alone: its log may be cut off. */
  async #find(job: TrialJob): Promise<FoundRun> {
    const { parts, name, targets } = this.#plan;
    const branches = await parts.checkpoints.branches(targets.control.base.sessionId);
    for (let attempt = 1; ; attempt++) {
      const branch = branchName(name, job, attempt);
      const headId = branches.find((known) => known.branch === branch)?.headId;
      if (headId === undefined) return { branch, isEnded: false };
      const head = await parts.checkpoints.get(headId);
      if (head?.branch !== branch) continue;
      checkKey(head.metadata?.trial, this.#plan);
      return { branch, headId, isEnded: head.trigger === 'conversation_end' };
    }
  }

  async #judge(result: ChatRunResult): Promise<Judged> {
    const { judge, signal } = this.#plan.options;
    const unfinished = describeUnfinished(result);
    if (unfinished !== undefined) return { outcome: 'error', error: unfinished };
    try {
      const verdict = await judge(result, { signal });
      const { success, score, note } = typeof verdict === 'boolean' ? { success: verdict } : verdict;
      if (typeof success !== 'boolean')
        throw new InvalidInputError(`The judge must say whether the run succeeded; found ${JSON.stringify(verdict)}.`);
      return { outcome: success ? 'success' : 'failure', ...withoutUndefined({ score, note }) };
    } catch (error) {
      return { outcome: 'error', error: `The judge failed: ${messageOf(error)}` };
    }
  }

  #describe({ arm, run }: TrialJob, result: ChatRunResult, judged: Judged & Pick<TrialRun, 'isReused'>): HeldRun {
    const { base, original } = this.#plan;
    const { messages, newMessages, branch, checkpointId, status } = result;
    const common = Math.min(messages.length, original.length);
    const described: TrialRun = {
      arm,
      run,
      branch,
      checkpointId,
      status,
      end: result.status === 'ended' ? result.end : null,
      ...judged,
      newMessages,
      used: subtractTotals(result.totals, base.totals),
      divergence: describeDivergence(messages.slice(0, common), original.slice(0, common)),
    };
    return { run: described, messages };
  }

  #describeFailure(job: TrialJob, branch: string, error: unknown): TrialRun {
    const status = this.#plan.options.signal?.aborted === true ? 'stopped' : 'failed';
    const nothing = { checkpointId: undefined, end: null, newMessages: 0, divergence: undefined, isReused: false };
    return { ...job, ...nothing, branch, status, outcome: 'error', error: messageOf(error), used: NO_TOTALS };
  }
}

type FoundRun = { readonly branch: string; readonly headId?: string; readonly isEnded: boolean };

function branchName(name: string, { arm, run }: TrialJob, attempt: number): string {
  return `${name}-${arm}-${run}${attempt === 1 ? '' : `.${attempt}`}`;
}

function checkKey(trial: unknown, { name, key }: TrialPlan): void {
  const found = typeof trial === 'object' && trial !== null && 'key' in trial ? trial.key : undefined;
  if (found === key) return;
  throw new InvalidInputError(
    `There is a trial "${name}" already, of another checkpoint, change or number of rounds. Choose another name.`,
    { details: { name } },
  );
}

/** Where two runs first differ, in words of both. */
export function describeDivergence(
  messages: readonly ChatMessage[],
  others: readonly ChatMessage[],
  from = 0,
): TrialDivergence | undefined {
  const index = findDivergence(messages, others, from);
  if (index === undefined) return undefined;
  return { index, ...withoutUndefined({ speaker: messages[index]?.name, otherSpeaker: others[index]?.name }) };
}

function describeUnfinished(result: ChatRunResult): string | undefined {
  switch (result.status) {
    case 'ended':
      return undefined;
    case 'waiting':
      return `The run waits for ${result.request.agent}: ${result.request.prompt}`;
    case 'failed':
      return messageOf(result.error);
    case 'stopped':
      return 'The run was stopped.';
  }
}
