import { randomUUID } from 'node:crypto';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions } from '../../core/options.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import { type ChatState, parseChatState } from '../chat/chat-state.ts';
import { PARTS } from '../run/run-options.ts';
import type { RepairParts } from './hold-branch.ts';
import { locateTarget } from './locate-target.ts';
import { type Target, toControl } from './target.ts';
import { totalsOf } from './totals.ts';
import { checkTrialOptions, type TrialOptions } from './trial-options.ts';
import { conclude, summariseArm, type TrialReport, weighChance } from './trial-report.ts';
import { describeDivergence, type HeldRun, type TrialJob, type TrialPlan, TrialRunner } from './trial-runner.ts';

/**
 * Finds out whether a change repairs a run: goes on from one checkpoint a number of times with the change and as often without it, each time
 * in a branch of its own, has every run judged, and says whether the difference could be chance. A run that fails is an outcome; a trial that
 * is stopped answers what it has, and one that was killed is resumed by its name.
 */
export async function trial(parts: RepairParts, checkpoint: string, options: TrialOptions): Promise<TrialReport> {
  checkOptions(parts, PARTS, 'trial()');
  checkTrialOptions(options);
  const plan = await planTrial(parts, checkpoint, options);
  const runner = new TrialRunner(plan);
  const jobs = listJobs(options);
  if (options.name !== undefined) await runner.check(jobs);
  const held: HeldRun[] = [];
  await work(jobs, options, async (job) => {
    const run = await runner.hold(job);
    held.push(run);
    options.onRun?.(run.run);
  });
  return report(plan, held);
}

async function planTrial(parts: RepairParts, checkpoint: string, options: TrialOptions): Promise<TrialPlan> {
  const { checkpoints } = parts;
  const edited = await locateTarget(checkpoints, checkpoint, options.intervention);
  const state = parseChatState(await checkpoints.load(edited.base.id));
  checkFolders(state, options);
  return {
    parts,
    name: options.name ?? `trial-${randomUUID().slice(0, 8)}`,
    key: digestText(JSON.stringify([edited.base.id, options.intervention ?? null, options.rounds])).slice(0, 16),
    targets: { edited, control: toControl(edited) },
    options,
    base: { messages: state.chat.messages.length, totals: totalsOf(state) },
    original: await readOriginal(checkpoints, edited),
  };
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

/** The conversation as it went on from the checkpoint that was asked for. */
async function readOriginal(checkpoints: CheckpointManager, { record, base }: Target): Promise<readonly ChatMessage[]> {
  const origin = (await checkpoints.get(record.originId)) ?? base;
  const branches = await checkpoints.branches(origin.sessionId);
  const headId = branches.find(({ branch }) => branch === origin.branch)?.headId ?? origin.id;
  return parseChatState(await checkpoints.load(headId)).chat.messages;
}

/** In pairs, so that what changes with time (a server, a price, a load) changes for both. */
function listJobs({ repeats, intervention }: TrialOptions): TrialJob[] {
  return Array.from({ length: repeats }, (_, at) => at + 1).flatMap((run): TrialJob[] => [
    ...(intervention === undefined ? [] : [{ arm: 'edited' as const, run }]),
    { arm: 'control', run },
  ]);
}

async function work(
  jobs: readonly TrialJob[],
  { concurrency = 1, signal }: TrialOptions,
  hold: (job: TrialJob) => Promise<void>,
): Promise<void> {
  const queue = [...jobs];
  const workers = Array.from({ length: Math.min(concurrency, jobs.length) }, async () => {
    for (let job = queue.shift(); job !== undefined && signal?.aborted !== true; job = queue.shift()) await hold(job);
  });
  await Promise.all(workers);
}

function report({ name, targets, options }: TrialPlan, held: readonly HeldRun[]): TrialReport {
  const { repeats, rounds, reason, author, intervention } = options;
  const runs = held.map(({ run }) => run).toSorted((a, b) => a.run - b.run);
  const control = summariseArm(runs.filter(({ arm }) => arm === 'control'));
  const edited = intervention === undefined ? undefined : summariseArm(runs.filter(({ arm }) => arm === 'edited'));
  const chance = edited === undefined ? undefined : weighChance(edited, control);
  return {
    name,
    sessionId: targets.edited.base.sessionId,
    intervention: targets.edited.record,
    ...withoutUndefined({ reason, author }),
    rounds,
    repeats,
    isComplete: runs.length === listJobs(options).length && runs.every(({ status }) => status !== 'stopped'),
    edited,
    control,
    pairs: comparePairs(held, targets.edited),
    chance,
    conclusion: conclude(chance),
  };
}

/** Where the edited run of each pair left its control, apart from the change itself. */
function comparePairs(held: readonly HeldRun[], target: Target): TrialReport['pairs'] {
  const from = target.kind === 'message' ? target.index + 1 : 0;
  const find = (wanted: TrialJob): HeldRun | undefined =>
    held.find(({ run: { arm, run }, messages }) => arm === wanted.arm && run === wanted.run && messages.length > 0);
  return held
    .filter(({ run: { arm } }) => arm === 'edited')
    .toSorted((a, b) => a.run.run - b.run.run)
    .flatMap(({ run: { run } }) => {
      const [edited, control] = [find({ arm: 'edited', run }), find({ arm: 'control', run })];
      if (edited === undefined || control === undefined) return [];
      return [{ run, divergence: describeDivergence(edited.messages, control.messages, from) }];
    });
}
