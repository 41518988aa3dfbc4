import { randomUUID } from 'node:crypto';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { callback, checkOptions, type OptionChecks, record, wholeFrom } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { type AgentTotals, NO_TOTALS, subtractTotals } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import { type ChatState, parseChatState, totalsOf } from '../chat/chat-state.ts';
import { PARTS } from '../run/run-options.ts';
import { findDivergence } from './compare-runs.ts';
import { BRANCH, holdBranch, type InterveneOptions, type RepairParts, resumeBranch } from './intervene.ts';
import { type Intervention, type Target, toControl } from './intervention.ts';
import { locateTarget } from './locate-target.ts';
import { conclude, summariseArm, type TrialArm, type TrialReport, type TrialRun, weighChance } from './trial-report.ts';

/** What a judge says of a run. */
export type TrialVerdict = boolean | { readonly success: boolean; readonly score?: number; readonly note?: string };

/** Decides whether a run succeeded. It is asked again when a trial is resumed; whatever it throws is the outcome `error`. */
export type Judge = (
  result: ChatRunResult,
  options: { readonly signal?: AbortSignal | undefined },
) => TrialVerdict | Promise<TrialVerdict>;

/** How a trial is made. */
export type TrialOptions = Omit<InterveneOptions, 'branch' | 'mode'> & {
  /** Without one, only the unedited runs are made. */
  readonly intervention?: Intervention;
  /** How many runs with the change, and how many without. */
  readonly repeats: number;
  readonly judge: Judge;
  /** How many runs are made at once; default 1. */
  readonly concurrency?: number;
  /** The name by which a trial that was killed is resumed: its finished runs are not made again. Default: a new one. */
  readonly name?: string;
  /** Called when a run was judged. */
  readonly onRun?: (run: TrialRun) => void;
};

/** More runs than this of one checkpoint are a mistake, or should be several trials. */
const MAX_REPEATS = 10_000;
const MAX_CONCURRENCY = 64;

const { branch: _branch, mode: _mode, ...CONTINUED } = BRANCH;

const OPTIONS: OptionChecks<TrialOptions> = {
  ...CONTINUED,
  // What is changed is checked where it is read.
  intervention: record,
  repeats: { required: wholeFrom(1, MAX_REPEATS) },
  judge: { required: callback },
  concurrency: wholeFrom(1, MAX_CONCURRENCY),
  name,
  onRun: callback,
};

/** Which run of which kind. */
type Job = { readonly arm: TrialArm; readonly run: number };

/** The branch of a run, and its head if it was begun. */
type FoundBranch = { readonly branch: string; readonly headId?: string; readonly isEnded: boolean };

/**
 * Finds out whether a change repairs a run: goes on from one checkpoint a number of times with the change and as often without it, each time
 * in a branch of its own, has every run judged, and says whether the difference could be chance. A run that fails is an outcome; a trial that
 * is stopped returns what it has, and one that was killed is resumed by its name.
 */
export async function trial(parts: RepairParts, checkpoint: string, options: TrialOptions): Promise<TrialReport> {
  checkOptions(parts, PARTS, 'trial()');
  checkOptions(options, OPTIONS, 'trial()');
  const { manager } = parts;
  const target = await locateTarget(manager, checkpoint, options.intervention);
  const read = async (id: string): Promise<ChatState> => parseChatState(await manager.load(id));
  const base = await read(target.base.id);
  checkFolders(base, options);
  const origin = (await manager.get(target.record.originId)) ?? target.base;
  const branches = await manager.branches(origin.sessionId);
  const original = await read(branches.find(({ branch }) => branch === origin.branch)?.headId ?? origin.id);
  return new Trial(parts, options, { target, base, original }).run();
}

/** What is tried, the state that it goes on from, and how the conversation went before. */
type Planned = { readonly target: Target; readonly base: ChatState; readonly original: ChatState };

class Trial {
  readonly #parts: RepairParts;
  readonly #options: TrialOptions;
  readonly #name: string;
  /** Tells trials of one name apart that are about different things. */
  readonly #key: string;
  readonly #targets: Readonly<Record<TrialArm, Target>>;
  readonly #base: { readonly messages: number; readonly totals: AgentTotals };
  /** How the conversation went before. */
  readonly #original: readonly ChatMessage[];

  constructor(parts: RepairParts, options: TrialOptions, { target, base, original }: Planned) {
    const { intervention = null, rounds } = options;
    this.#parts = parts;
    this.#options = options;
    this.#name = options.name ?? `trial-${randomUUID().slice(0, 8)}`;
    this.#key = digestText(JSON.stringify([target.base.id, intervention, rounds])).slice(0, 16);
    this.#targets = { edited: target, control: toControl(target) };
    this.#base = { messages: base.chat.messages.length, totals: totalsOf(base) };
    this.#original = original.chat.messages;
  }

  async run(): Promise<TrialReport> {
    const { name: given, concurrency = 1, signal, onRun } = this.#options;
    const jobs = this.#jobs();
    if (given !== undefined) for (const job of jobs) await this.#find(job);
    const queue = [...jobs];
    const runs: TrialRun[] = [];
    const work = async (): Promise<void> => {
      for (let job = queue.shift(); job !== undefined && signal?.aborted !== true; job = queue.shift()) {
        const run = await this.#hold(job);
        runs.push(run);
        onRun?.(run);
      }
    };
    await Promise.all(Array.from({ length: Math.min(concurrency, jobs.length) }, work));
    const isComplete = runs.length === jobs.length && runs.every(({ status }) => status !== 'stopped');
    return this.#report(
      runs.toSorted((a, b) => a.run - b.run),
      isComplete,
    );
  }

  /** In pairs, so that what changes with time (a server, a price, a load) changes for both. */
  #jobs(): Job[] {
    const { repeats, intervention } = this.#options;
    const arms: readonly TrialArm[] = intervention === undefined ? ['control'] : ['edited', 'control'];
    return Array.from({ length: repeats }, (_, at) => arms.map((arm) => ({ arm, run: at + 1 }))).flat();
  }

  #report(runs: readonly TrialRun[], isComplete: boolean): TrialReport {
    const { repeats, rounds, reason, author, intervention } = this.#options;
    const of = (wanted: TrialArm) => summariseArm(runs.filter(({ arm }) => arm === wanted));
    const { base, record: changed } = this.#targets.edited;
    const control = of('control');
    const edited = intervention === undefined ? undefined : of('edited');
    const chance = edited === undefined ? undefined : weighChance(edited, control);
    return {
      name: this.#name,
      sessionId: base.sessionId,
      intervention: changed,
      ...withoutUndefined({ reason, author }),
      rounds,
      repeats,
      isComplete,
      edited,
      control,
      chance,
      conclusion: conclude(chance),
    };
  }

  /** Makes one run and has it judged. Whatever goes wrong is its outcome. */
  async #hold(job: Job): Promise<TrialRun> {
    let branch = this.#branchOf(job, 1);
    try {
      const place = await this.#find(job);
      branch = place.branch;
      const result = await this.#continue(job, place);
      return { ...job, ...this.#describe(result), ...(await this.#judge(result)), isReused: place.isEnded };
    } catch (error) {
      const status = this.#options.signal?.aborted === true ? 'stopped' : 'failed';
      const nothing = { checkpointId: undefined, end: null, newMessages: 0, divergence: undefined, used: NO_TOTALS };
      return { ...job, branch, status, ...nothing, outcome: 'error', error: messageOf(error), isReused: false };
    }
  }

  async #continue({ arm, run }: Job, { branch, headId }: FoundBranch): Promise<ChatRunResult> {
    const target = this.#targets[arm];
    const metadata = { ...this.#options.metadata, trial: { name: this.#name, arm, run, key: this.#key } };
    const settings = { logs: false, ...this.#options, metadata, branch } as const;
    const result = await (headId === undefined
      ? holdBranch(this.#parts, target, settings)
      : resumeBranch(this.#parts, { target, branch }, settings));
    return { ...result, newMessages: result.messages.length - this.#base.messages };
  }

  #branchOf({ arm, run }: Job, attempt: number): string {
    return `${this.#name}-${arm}-${run}${attempt === 1 ? '' : `.${attempt}`}`;
  }

  /** The branch of a run that was begun, or a free name. A branch that was forked and not begun is left alone: its log may be cut off. */
  async #find(job: Job): Promise<FoundBranch> {
    const { manager } = this.#parts;
    const branches = await manager.branches(this.#targets.control.base.sessionId);
    for (let attempt = 1; ; attempt++) {
      const branch = this.#branchOf(job, attempt);
      const headId = branches.find((known) => known.branch === branch)?.headId;
      if (headId === undefined) return { branch, isEnded: false };
      const head = await manager.get(headId);
      if (head?.branch !== branch) continue;
      this.#checkKey(head.metadata?.trial);
      return { branch, headId, isEnded: head.trigger === 'conversation_end' };
    }
  }

  #checkKey(found: unknown): void {
    if (typeof found === 'object' && found !== null && 'key' in found && found.key === this.#key) return;
    throw new InvalidInputError(
      `There is a trial "${this.#name}" already, of another checkpoint, change or number of rounds. Choose another name.`,
      { details: { name: this.#name } },
    );
  }

  async #judge(result: ChatRunResult): Promise<Pick<TrialRun, 'outcome' | 'score' | 'note' | 'error'>> {
    const { judge, signal } = this.#options;
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

  #describe(result: ChatRunResult) {
    const { messages, newMessages, branch, checkpointId, status, totals } = result;
    const end = result.status === 'ended' ? result.end : null;
    const used = subtractTotals(totals, this.#base.totals);
    return { branch, checkpointId, status, end, newMessages, used, divergence: this.#divergence(messages) };
  }

  /** Where a run left the original, as far as both go. */
  #divergence(messages: readonly ChatMessage[]): TrialRun['divergence'] {
    const common = Math.min(messages.length, this.#original.length);
    const index = findDivergence(messages.slice(0, common), this.#original.slice(0, common));
    if (index === undefined) return undefined;
    const [speaker, otherSpeaker] = [messages[index]?.name, this.#original[index]?.name];
    return { index, ...withoutUndefined({ speaker, otherSpeaker }) };
  }
}

/** Runs that write to one folder at once would not be independent. */
function checkFolders({ agents }: ChatState, { concurrency = 1 }: TrialOptions): void {
  const agent = Object.values(agents).find(({ codeExecution }) => codeExecution !== false);
  if (agent === undefined || concurrency === 1) return;
  throw new InvalidInputError(
    `"${agent.name}" runs code in a working directory, which runs made at once would share. Use a concurrency of 1.`,
    { details: { agent: agent.name, concurrency } },
  );
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
