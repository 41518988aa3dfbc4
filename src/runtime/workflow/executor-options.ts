import * as is from '../../core/options.ts';
import { checkOptions, isRecord, type OptionChecks } from '../../core/options.ts';
import { type CheckpointId, name } from '../../core/record/id.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import { manager, onDifference } from '../../manager/call-options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { LEASE_CHECKS, type LeaseOptions } from '../../manager/lease/lease.ts';
import type { HumanInTheLoopSettings } from '../config/config-schema.ts';
import type { Difference } from '../run/differences.ts';
import { createPolicy, humanInTheLoop, metadataBut } from '../run/run-options.ts';
import type { WorkflowRegistry } from './definition/registry.ts';
import type { Workflow } from './definition/workflow.ts';
import type { WorkflowMigration } from './migration.ts';
import type { RunLabels } from './step/run-record.ts';
import type { ApprovalRequest, StepEnd, StepFailure } from './step/run-state.ts';

/** How an executor is made. */
export type WorkflowExecutorOptions = {
  readonly manager: CheckpointManager;
  readonly registry: WorkflowRegistry;
  /** How runs of older definitions go on. */
  readonly migrations?: readonly WorkflowMigration[];
  /** Which operations need a person's word, as in `workflow.human_in_the_loop`. Default: none. */
  readonly humanInTheLoop?: Partial<HumanInTheLoopSettings>;
  /** Steps that run at the same time, at most; default 32. */
  readonly maxConcurrency?: number;
  /** The lease a run is done under, so that one process at a time does it; with `waitMs` another one's end is waited for. */
  readonly lease?: Pick<LeaseOptions, 'owner' | 'ttlMs' | 'waitMs'>;
};

/** What to run. */
export type RunOptions = RunLabels & {
  /** A workflow, the name of one in the registry, or the path of a YAML file. */
  readonly workflow: Workflow | string;
  readonly input?: unknown;
  /** The run's name. If it exists, it is resumed at its head. Default: a new one. */
  readonly sessionId?: string;
  /** Resumes at this checkpoint: at its branch if it is the head there, in a new branch otherwise. */
  readonly checkpointId?: string;
  /** What to do if steps that have begun were changed: `fail` (default) before anything runs, or keep their results. */
  readonly onDifference?: OnDifference;
  /** `sleep` (default): stay until the times have come that steps wait for. `return`: end as `waiting`, but wait for the pauses of retries. */
  readonly timers?: 'sleep' | 'return';
  readonly signal?: AbortSignal;
};

/** How a run ended, or what it waits for. */
export type WorkflowResult = {
  readonly status: 'completed' | 'failed' | 'waiting';
  readonly sessionId: string;
  readonly branch: string;
  /** The checkpoint that says so; resume from it. */
  readonly checkpointId: CheckpointId;
  readonly output?: unknown;
  /** Of a failed run: the step that stopped it. */
  readonly failure?: StepFailure;
  /** What people are asked, and when steps go on by themselves. */
  readonly pending: {
    readonly approvals: readonly ApprovalRequest[];
    readonly timers: readonly { readonly path: string; readonly atMs: number }[];
  };
  /** When it is worth running it again, if nobody answers before. */
  readonly wakeAtMs?: number;
  /** How steps ended, in that order. */
  readonly steps: readonly EndedStep[];
  /** Steps that had begun and were changed since; their results were kept. */
  readonly differences: readonly Difference[];
};

/** How a step ended, and the checkpoint after it, if there is one: resume from it to do again what came after the step. */
export type EndedStep = StepEnd & { readonly checkpointId?: CheckpointId };

const MIGRATION: OptionChecks<WorkflowMigration> = {
  workflow: { required: is.filledString },
  from: { required: is.filledString },
  steps: { required: is.recordOf(is.orNull(is.filledString)) },
};

const { owner, ttlMs, waitMs } = LEASE_CHECKS;

const EXECUTOR: OptionChecks<WorkflowExecutorOptions> = {
  manager: { required: manager },
  registry: {
    required: is.options({
      functions: is.recordOf(is.callback),
      agents: is.recordOf(is.having('reply')),
      workflows: is.recordOf(is.record),
    } satisfies OptionChecks<WorkflowRegistry>),
  },
  migrations: is.listOf(is.options(MIGRATION)),
  humanInTheLoop,
  maxConcurrency: is.wholeFrom(1),
  lease: is.options({ owner, ttlMs, waitMs }),
};

const RUN: OptionChecks<RunOptions> = {
  workflow: {
    required: is.accepts(
      'a workflow, the name of one in the registry, or the path of a YAML file',
      (value) =>
        typeof value === 'string' || (isRecord(value) && Array.isArray(value.steps) && Array.isArray(value.order)),
    ),
  },
  input: is.anything,
  sessionId: name,
  checkpointId: is.filledString,
  onDifference,
  timers: is.oneOf('sleep', 'return'),
  signal: is.signal,
  userId: name,
  agentId: name,
  metadata: metadataBut('step'),
};

/** Refuses what a run cannot be begun with. */
export function checkRun(options: RunOptions): void {
  checkOptions(options, RUN, 'run()');
}

const DEFAULT_MAX_CONCURRENCY = 32;

/** Checks and completes what the caller said. */
export function parseExecutorOptions(options: WorkflowExecutorOptions) {
  checkOptions(options, EXECUTOR, 'new WorkflowExecutor()');
  const { humanInTheLoop: asked, maxConcurrency = DEFAULT_MAX_CONCURRENCY } = options;
  return { policy: createPolicy(asked), maxConcurrency };
}
