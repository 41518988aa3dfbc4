import { isDeepStrictEqual } from 'node:util';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import {
  checkOptions,
  describeValue,
  isRecord,
  type Optional,
  type OptionCheck,
  type OptionChecks,
} from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { type CodeExecutionConfig, parseCodeExecutionConfig } from '../code/code-executor.ts';
import { compareCode } from '../code/code-limits.ts';
import type { ChatModel, LanguageModel } from '../model/chat-model.ts';
import { type LlmConfig, parseLlmConfig } from '../model/llm-config.ts';
import { type AgentRegistry, modelIdOf, registry } from './agent-registry.ts';
import { type AgentState, DEFAULT_RUNTIME, NO_TOTALS, type RuntimeFlags } from './agent-state.ts';
import type { HumanInputMode, ReplyOptions } from './reply.ts';
import { fingerprintTool, type Tool, tool } from './tool.ts';

/** What an agent is made of. */
export type StandardAgentOptions = {
  readonly name: string;
  readonly systemMessage?: string;
  /** What others, and whoever selects speakers, are told of it; default: the first sentence of its system message. */
  readonly description?: string;
  readonly llmConfig?: LlmConfig;
  /** A model given as an object. A checkpoint holds only its id; on restore it is looked up in the registry. */
  readonly model?: ChatModel | LanguageModel;
  readonly tools?: readonly Tool[];
  readonly humanInputMode?: HumanInputMode;
  readonly maxConsecutiveAutoReplies?: number;
  /** How often a model is asked in one turn; the last time it has to speak. Default 8. */
  readonly maxToolRounds?: number;
  readonly defaultReply?: string;
  /** Off unless configured. */
  readonly codeExecution?: CodeExecutionConfig;
  readonly runtime?: Partial<RuntimeFlags>;
};

/** What options say that are left out. */
const DEFAULTS = {
  humanInputMode: 'NEVER',
  maxConsecutiveAutoReplies: null,
  maxToolRounds: 8,
  defaultReply: '',
  codeExecution: false,
  runtime: {},
} as const;

/** The life of an agent that was just made. */
const BEGINNING = {
  status: 'initializing',
  statusBeforePause: null,
  autoReplies: {},
  histories: {},
  workspace: null,
  memoryIds: [],
  totals: NO_TOTALS,
} as const;

/** The state of an agent that was just made. */
export function createState(options: StandardAgentOptions, agentType: string): AgentState {
  const { name, systemMessage = '', description = systemMessage, llmConfig, model, tools = [] } = options;
  const given = { ...DEFAULTS, ...withoutUndefined(options) };
  const { humanInputMode, maxConsecutiveAutoReplies, maxToolRounds, defaultReply, codeExecution, runtime } = given;
  return {
    ...BEGINNING,
    name: parseName(name, "An agent's name"),
    agentType,
    systemMessage,
    description,
    humanInputMode,
    maxConsecutiveAutoReplies,
    maxToolRounds,
    defaultReply,
    llmConfig: llmConfig === undefined ? null : parseLlmConfig(llmConfig),
    modelId: model === undefined ? null : modelIdOf(model),
    tools: Object.fromEntries(tools.map((tool) => [tool.name, fingerprintTool(tool)])),
    codeExecution: parseCodeExecutionConfig(codeExecution),
    runtime: { ...DEFAULT_RUNTIME, ...withoutUndefined(runtime) },
  };
}

/** What of a state options say, and what people call it. */
const FROM_CODE = {
  systemMessage: 'prompt',
  description: 'description',
  llmConfig: 'model',
  modelId: 'model',
  humanInputMode: 'humanInputMode',
  maxConsecutiveAutoReplies: 'maxConsecutiveAutoReplies',
  maxToolRounds: 'maxToolRounds',
  defaultReply: 'defaultReply',
} as const satisfies Partial<Record<keyof AgentState, string>>;

const FROM_CODE_KEYS = Object.keys(FROM_CODE) as (keyof typeof FROM_CODE)[];

/** What of an agent's state its options said: the rest has no opinion of the code. */
export type GivenState = Partial<Omit<AgentState, 'runtime'>> & Pick<StandardAgentOptions, 'runtime'>;

export function givenState(options: StandardAgentOptions, state: AgentState): GivenState {
  const said = FROM_CODE_KEYS.filter((key) => options[key === 'modelId' ? 'model' : key] !== undefined);
  return {
    ...Object.fromEntries(said.map((key) => [key, state[key]])),
    tools: state.tools,
    ...(options.codeExecution !== undefined && { codeExecution: state.codeExecution }),
    ...(options.runtime !== undefined && { runtime: options.runtime }),
  };
}

/** A state with what options said in place of what it has, and the tools that are found. */
export function adoptGiven(
  { runtime, tools, ...given }: GivenState,
  saved: AgentState,
  own: ReadonlyMap<string, Tool>,
): AgentState {
  const found = Object.keys({ ...saved.tools, ...tools }).flatMap((name) => own.get(name) ?? []);
  return {
    ...saved,
    ...(saved.description === saved.systemMessage && { description: given.systemMessage ?? saved.description }),
    ...given,
    ...(given.modelId !== undefined && { llmConfig: null }),
    ...(given.llmConfig !== undefined && { modelId: null }),
    runtime: { ...saved.runtime, ...withoutUndefined(runtime ?? {}) },
    tools: Object.fromEntries(found.map((one) => [one.name, fingerprintTool(one)])),
  };
}

/** What an agent is compared with a state by: its own tools, its registry, and whether it stays as its code says. */
type Comparing = {
  readonly registry: AgentRegistry;
  readonly own: ReadonlyMap<string, Tool>;
  readonly isCodeKept: boolean;
};

/** Names what options said and a state has otherwise, and the model and code that a state needs and the registry lacks. */
export function compareGiven(
  given: GivenState,
  saved: AgentState,
  { registry, isCodeKept, own }: Comparing,
): RestoreProblem[] {
  const at = `$.agents.${saved.name}`;
  const changed = (word: string): RestoreProblem => {
    const source = isCodeKept ? 'code' : 'checkpoint';
    const problem = `The ${word} of "${saved.name}" changed in the code, or had secrets in it: the agent has what the ${source} says.`;
    return { path: `${at}.${word}`, problem, kind: 'changed' };
  };
  const missing = [...findMissingModel(saved, registry), ...refuseCode(saved, registry)];
  const settings = FROM_CODE_KEYS.flatMap((key) => {
    return !Object.hasOwn(given, key) || isDeepStrictEqual(given[key], saved[key]) ? [] : [changed(FROM_CODE[key])];
  });
  const flags = Object.entries(given.runtime ?? {}).flatMap(([flag, value]) => {
    return value === undefined || value === saved.runtime[flag as keyof RuntimeFlags]
      ? []
      : [changed(`runtime.${flag}`)];
  });
  const tools = Object.keys(given.tools ?? {}).flatMap((name): RestoreProblem[] => {
    if (Object.hasOwn(saved.tools, name)) return [];
    const offers = isCodeKept ? 'offers' : 'does not offer';
    const problem = `The checkpoint does not have the tool "${name}": "${saved.name}" ${offers} it to its model.`;
    return [{ path: `${at}.tools.${name}`, problem, kind: 'added' }];
  });
  const code = findNarrowed(saved.name, saved.codeExecution, given.codeExecution ?? saved.codeExecution);
  const known = missing.map(({ path }) => path);
  const changes = [...settings, ...code, ...flags, ...tools, ...compareTools(saved, own)];
  return [...missing, ...changes.filter(({ path }) => !known.some((one) => path.startsWith(one)))];
}

function findMissingModel({ name, modelId }: AgentState, registry: AgentRegistry): RestoreProblem[] {
  if (modelId === null || registry.hasModel(modelId)) return [];
  const problem = `Agent "${name}" needs the model "${modelId}", which is not registered. Give the agent this model, or add it to the models of the registry that it replies with.`;
  return [{ path: `$.agents.${name}.model`, problem }];
}

/** Names code that a state asks to run and nobody here allows, and what is allowed less than it asks for. */
export function refuseCode(state: AgentState, registry: AgentRegistry): RestoreProblem[] {
  const { name, codeExecution } = state;
  const permitted = registry.permitCode(state);
  if (codeExecution === false || permitted !== false) return findNarrowed(name, codeExecution, permitted);
  const problem = `"${name}" asks to run code in "${codeExecution.workDir}": code execution is not allowed here. Allow the folder with allowCode of the registry (--allow-code at the command line).`;
  return [{ path: `$.agents.${name}.codeExecution`, problem }];
}

/** Names where code may do less than a state asks for: a state never widens what the code allows. */
function findNarrowed(name: string, asked: CodeExecutionConfig, permitted: CodeExecutionConfig): RestoreProblem[] {
  return compareCode(asked, permitted).map((field) => {
    const problem = `The checkpoint asks for another "${field}" of "${name}" than the code allows: what both allow counts.`;
    return { path: `$.agents.${name}.${field}`, problem };
  });
}

/** Names the tools of a state that an agent lacks, or describes otherwise. */
export function compareTools({ name, tools }: AgentState, own: ReadonlyMap<string, Tool>): RestoreProblem[] {
  return Object.entries(tools).flatMap(([key, fingerprint]): RestoreProblem[] => {
    const path = `$.agents.${name}.tools.${key}`;
    const found = own.get(key);
    if (found === undefined) return [{ path, problem: `The tool "${key}" is not registered.`, kind: 'missing' }];
    if (fingerprintTool(found) === fingerprint) return [];
    const problem = `The tool "${key}" is described to models in another way than before.`;
    return [{ path, problem, kind: 'changed' }];
  });
}

/** What names a model: a configuration, or the id of one that was given as an object. */
type ModelNames = Pick<AgentState, 'llmConfig' | 'modelId'>;

/** How a state names a model: a configuration itself, an object by its id in the registry. */
export function nameModel(
  given: LlmConfig | ChatModel | LanguageModel | undefined,
  registry: AgentRegistry,
): ModelNames {
  if (given === undefined) return { llmConfig: null, modelId: null };
  if (!('reply' in given) && !('specificationVersion' in given))
    return { llmConfig: parseLlmConfig(given), modelId: null };
  registry.addModel(modelIdOf(given), given);
  return { llmConfig: null, modelId: modelIdOf(given) };
}

/** Another model, as it is named on purpose: a configuration takes the place of an id. Throws if both are given. */
export function overrideModel({ llmConfig, modelId }: Optional<ModelNames>): Partial<ModelNames> {
  if (llmConfig === undefined) return modelId === undefined ? {} : { modelId };
  if (llmConfig === null) return { llmConfig, modelId: modelId ?? null };
  if ((modelId ?? undefined) === undefined) return { llmConfig: parseLlmConfig(llmConfig), modelId: null };
  throw new InvalidInputError(
    `An override names two models: modelId ${describeValue(modelId)} and an llmConfig. Give one of them.`,
    { details: { modelId } },
  );
}

/** What may be changed of an agent for a what-if experiment. */
export type AgentOverride = Partial<
  Pick<
    AgentState,
    | 'systemMessage'
    | 'description'
    | 'llmConfig'
    | 'modelId'
    | 'humanInputMode'
    | 'maxConsecutiveAutoReplies'
    | 'maxToolRounds'
  >
>;

/** Accepts some of the flags of an agent. */
export const runtimeFlags: OptionCheck = is.options({
  stream: is.flag,
  store: is.flag,
  checkpoint: is.flag,
} satisfies OptionChecks<RuntimeFlags>);

/** Accepts the agents of a team. */
export const standardAgents: OptionCheck = is.listOf(
  is.accepts('a StandardAgent', (value) => isRecord(value) && ['respond', 'saveState'].every((name) => name in value)),
);

const model: OptionCheck = (value) => {
  if (isRecord(value) && ('reply' in value || ('provider' in value && 'modelId' in value))) return undefined;
  return `must be a model given as an object; found ${describeValue(value)}. Name a model in llmConfig: { provider: "openai", model: "..." }`;
};

const humanInputMode = is.oneOf('ALWAYS', 'TERMINATE', 'NEVER');

const MADE: OptionChecks<StandardAgentOptions> = {
  // The name and the configurations of models and code are checked where they are read.
  name: is.anything,
  systemMessage: is.string,
  description: is.string,
  llmConfig: is.anything,
  model,
  codeExecution: is.anything,
  tools: is.listOf(tool),
  humanInputMode,
  maxConsecutiveAutoReplies: is.wholeFrom(0),
  maxToolRounds: is.wholeFrom(1),
  defaultReply: is.string,
  runtime: runtimeFlags,
};

/** Refuses what an agent cannot be made of. Options that a subclass has besides are its own. */
export function checkAgent(given: StandardAgentOptions, isSubclass: boolean): void {
  const known =
    isSubclass && isRecord(given)
      ? Object.fromEntries(Object.entries(given).filter(([key]) => Object.hasOwn(MADE, key)))
      : given;
  checkOptions(known, MADE, 'new StandardAgent()');
}

const OVERRIDE: OptionChecks<AgentOverride> = {
  systemMessage: is.string,
  description: is.string,
  // Checked where it is read.
  llmConfig: is.anything,
  modelId: is.orNull(is.filledString),
  humanInputMode,
  maxConsecutiveAutoReplies: is.orNull(is.wholeFrom(0)),
  maxToolRounds: is.wholeFrom(1),
};

/** Refuses what cannot be changed of an agent on purpose. */
export function checkOverride(given: unknown, of: string): void {
  checkOptions(given, OVERRIDE, of);
}

const REPLY: OptionChecks<ReplyOptions> = {
  registry,
  partner: is.filledString,
  remembers: is.flag,
  idempotencyKey: is.filledString,
  signal: is.signal,
  onText: is.callback,
};

/** Refuses what an agent cannot be asked with. */
export function checkReply(given: unknown): void {
  checkOptions(given, REPLY, 'reply()');
}
