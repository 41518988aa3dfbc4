import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionChecks } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { nameModel, overrideModel, standardAgents } from '../agent/agent-options.ts';
import { type AgentRegistry, registry } from '../agent/agent-registry.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { HumanInTheLoopSettings, WorkflowConfig } from '../config/config-schema.ts';
import type { ChatModel, LanguageModel } from '../model/chat-model.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import { checkMembers } from '../run/agent-team.ts';
import { checkNames, checkTrust, createPolicy, humanInTheLoop, type OperationPolicy } from '../run/run-options.ts';
import type { FleetCallbackFlags, FleetSettings } from './fleet-state.ts';

/** What a fleet is made of. */
export type FleetOptions = FleetLimits & {
  readonly agents: readonly StandardAgent[];
  readonly registry?: AgentRegistry;
  /** What the orchestrator thinks with: a model given as an object, or a configuration. */
  readonly model?: ChatModel | LanguageModel;
  readonly llmConfig?: LlmConfig;
  /** Default `orchestrator`. */
  readonly orchestratorName?: string;
  /** What tools do, by their name, for `require_approval_for`: `{ fetch_page: 'external_api_calls' }`. */
  readonly operations?: Readonly<Record<string, string>>;
  /** Settings as a checkpoint holds them, instead of all others. */
  readonly settings?: FleetSettings;
};

/** What of a fleet a `workflow.yaml` can say. */
export type FleetLimits = {
  /** Default 15. */
  readonly maxRoundCount?: number;
  /** Default 3: it is re-planned when the count is greater. */
  readonly maxStallCount?: number;
  /** Default 2. */
  readonly maxResetCount?: number;
  readonly maxTokens?: number;
  readonly maxCostUsd?: number;
  /** Whether a person reviews each plan; default no. */
  readonly planReview?: boolean;
  /** Which operations need a person's word, as in `workflow.human_in_the_loop`. Default: none. */
  readonly humanInTheLoop?: Partial<HumanInTheLoopSettings>;
  readonly callbacks?: Partial<FleetCallbackFlags>;
};

const DEFAULTS = {
  orchestratorName: 'orchestrator',
  maxRoundCount: 15,
  maxStallCount: 3,
  maxResetCount: 2,
  maxTokens: null,
  maxCostUsd: null,
  planReview: false,
} as const;
const CALLBACKS: FleetCallbackFlags = { streaming: true, progressLedger: true, toolCalls: true };

const LIMITS = {
  maxRoundCount: is.wholeFrom(1),
  maxStallCount: is.wholeFrom(0),
  maxResetCount: is.wholeFrom(0),
  maxTokens: is.wholeFrom(1),
  maxCostUsd: is.positive,
  planReview: is.flag,
  callbacks: is.options({
    streaming: is.flag,
    progressLedger: is.flag,
    toolCalls: is.flag,
  } satisfies OptionChecks<FleetCallbackFlags>),
} as const;

const OPTIONS: OptionChecks<FleetOptions> = {
  ...LIMITS,
  agents: { required: standardAgents },
  registry,
  // A model and a configuration are checked where they are read, and settings where a checkpoint is.
  model: is.record,
  llmConfig: is.record,
  settings: is.record,
  orchestratorName: name,
  operations: is.recordOf(is.filledString),
  humanInTheLoop,
};

/** What may be changed of a fleet that has begun. */
const CHANGES: OptionChecks<FleetSettings> = {
  ...LIMITS,
  orchestratorName: () => 'cannot be changed: the agents keep what they heard under this name',
  maxTokens: is.orNull(LIMITS.maxTokens),
  maxCostUsd: is.orNull(LIMITS.maxCostUsd),
  // Checked where it is read.
  llmConfig: is.orNull(is.record),
  modelId: is.orNull(is.filledString),
  policy: is.options({
    requireApprovalFor: is.listOf(is.filledString),
    trustedOperations: is.listOf(is.filledString),
    operations: is.recordOf(is.filledString),
    approvalTimeoutMs: is.orNull(is.positive),
    autoRejectOnTimeout: is.flag,
  } satisfies OptionChecks<OperationPolicy>),
};

/** Settings with what is changed on purpose. Throws if a fleet cannot work by them. */
export function changeSettings(was: FleetSettings, changes: Partial<FleetSettings>): FleetSettings {
  checkOptions(changes, CHANGES, 'overrides.settings');
  const { llmConfig, modelId, policy = {}, callbacks = {}, ...given } = withoutUndefined(changes);
  const model = { llmConfig: was.llmConfig, modelId: was.modelId, ...overrideModel({ llmConfig, modelId }) };
  if (model.llmConfig === null && model.modelId === null) throw wrongModels('neither');
  const settings = {
    ...was,
    ...given,
    ...model,
    policy: { ...was.policy, ...withoutUndefined(policy) },
    callbacks: { ...was.callbacks, ...withoutUndefined(callbacks) },
  };
  checkTrust(settings.policy);
  return settings;
}

function wrongModels(found: 'neither' | 'both'): InvalidInputError {
  return new InvalidInputError(`The orchestrator of a fleet needs a model or an llmConfig; it has ${found}.`);
}

/** Refuses what a fleet cannot be made of. */
export function checkFleet(options: FleetOptions): void {
  checkOptions(options, OPTIONS, 'new Fleet()');
  const { operations, humanInTheLoop: asked } = options;
  if (operations !== undefined && asked === undefined)
    throw new InvalidInputError(
      'operations say what tools do for humanInTheLoop, and the fleet has none, so they have no effect. Give humanInTheLoop as well; if a workflow.yaml is to say it, give humanInTheLoop: { enabled: false }.',
      { details: { option: 'operations' } },
    );
}

/** The settings of a fleet, checked and complete. */
export function createSettings(options: FleetOptions, registry: AgentRegistry): FleetSettings {
  if (options.settings !== undefined) return options.settings;
  const { agents, model, llmConfig, settings: _, registry: __, callbacks = {}, ...rest } = options;
  const { humanInTheLoop: asked, operations, ...given } = withoutUndefined(rest);
  const names = agents.map(({ name }) => name);
  checkMembers(names, given.orchestratorName ?? DEFAULTS.orchestratorName);
  const policy = createPolicy(asked, operations);
  checkTools(policy, agents);
  if ((model === undefined) === (llmConfig === undefined)) throw wrongModels(model === undefined ? 'neither' : 'both');
  return {
    ...DEFAULTS,
    ...given,
    ...nameModel(model ?? llmConfig, registry),
    policy,
    callbacks: { ...CALLBACKS, ...withoutUndefined(callbacks) },
  };
}

/** A rule for a tool that is misspelt would let the tool run unasked. */
function checkTools(policy: OperationPolicy, agents: readonly StandardAgent[]): void {
  const { requireApprovalFor, trustedOperations, operations } = policy;
  const tools = agents.flatMap((agent) => agent.tools.map((tool) => tool.name));
  checkNames([...requireApprovalFor, ...trustedOperations], [...tools, ...Object.values(operations)]);
  checkNames(Object.keys(operations), tools);
}

const workflowConfig = is.accepts('what loadWorkflowConfig() returned', (config) => {
  const { workflow, fleet } = Object(config) as Partial<WorkflowConfig>;
  return (
    workflow?.human_in_the_loop !== undefined && fleet?.orchestrator !== undefined && fleet.callbacks !== undefined
  );
});

/** What a `workflow.yaml` says about a fleet: spread it into the fleet's options. The `runtime` flags are for the agents themselves. */
export function fleetOptionsFrom(config: WorkflowConfig): FleetLimits {
  is.checkValue(config, workflowConfig, 'The settings of fleetOptionsFrom()');
  const { workflow, fleet } = config;
  const { orchestrator, plan_review: review, callbacks } = fleet;
  return {
    ...withoutUndefined({
      maxRoundCount: orchestrator.max_round_count ?? workflow.max_rounds,
      maxStallCount: orchestrator.max_stall_count ?? workflow.max_stalls,
      maxResetCount: orchestrator.max_reset_count ?? workflow.max_resets,
    }),
    planReview: review.enabled && review.require_human_approval,
    humanInTheLoop: workflow.human_in_the_loop,
    callbacks: {
      streaming: callbacks.streaming,
      progressLedger: callbacks.log_progress_ledger,
      toolCalls: callbacks.log_tool_calls,
    },
  };
}
