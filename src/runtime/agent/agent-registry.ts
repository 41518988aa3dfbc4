import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import type { CodeExecutionConfig, CodeExecutor } from '../code/code-executor.ts';
import { isWithin, narrowCode } from '../code/code-limits.ts';
import { LocalCodeExecutor } from '../code/local-code-executor.ts';
import { buildModel, type Environment } from '../model/build-model.ts';
import type { ChatModel, LanguageModel } from '../model/chat-model.ts';
import { fromLanguageModel } from '../model/from-language-model.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import { WorkspaceCache } from '../workspace/workspace-cache.ts';
import type { AgentState } from './agent-state.ts';
import type { ChatMessage } from './chat-message.ts';
import type { StandardAgent } from './standard-agent.ts';
import { type Tool, tool } from './tool.ts';

/** Makes an empty agent of one class; its state is put in afterwards. */
export type AgentMaker = (state: AgentState) => StandardAgent;

/** Decides whether a message ends a conversation. */
export type EndPredicate = (message: ChatMessage) => boolean;

/** Chooses who speaks next; undefined ends the conversation. */
export type SpeakerSelector = (view: {
  readonly messages: readonly ChatMessage[];
  readonly candidates: readonly string[];
  readonly lastSpeaker: string | undefined;
}) => string | undefined;

/** The code that a conversation needs, by name. */
export type AgentRegistryOptions = {
  readonly tools?: readonly Tool[];
  readonly agents?: Readonly<Record<string, AgentMaker>>;
  readonly predicates?: Readonly<Record<string, EndPredicate>>;
  readonly selectors?: Readonly<Record<string, SpeakerSelector>>;
  /** Models that are not built from an `llmConfig`, by the id that checkpoints name. */
  readonly models?: Readonly<Record<string, ChatModel | LanguageModel>>;
  /** Where keys are looked up when a model is built; the library reads no environment by itself. */
  readonly env?: Environment;
  /** Where models may be asked; for checkpoints that come from others, whose configurations decide where a key goes. Default: anywhere. */
  readonly allowedHosts?: readonly string[];
  /** Folders in which agents may run code, and where captured files may be put back. What checkpoints and team files say of code is only a request. */
  readonly allowCode?: readonly string[];
  /** What runs code; default: processes of this machine. Whoever gives one decides what it runs: it is asked about every folder. */
  readonly createExecutor?: (config: Exclude<CodeExecutionConfig, false>) => CodeExecutor;
};

const OPTIONS: OptionChecks<AgentRegistryOptions> = {
  tools: is.listOf(tool),
  agents: is.recordOf(is.callback),
  predicates: is.recordOf(is.callback),
  selectors: is.recordOf(is.callback),
  models: is.recordOf(is.record),
  env: is.record,
  allowedHosts: is.listOf(is.string),
  allowCode: is.listOf(is.string),
  createExecutor: is.callback,
};

/** Accepts a registry. */
export const registry: OptionCheck = is.accepts(
  'an AgentRegistry: new AgentRegistry({ tools, models, ... })',
  (value) => is.having('addAgent', 'modelFor', 'allowsCode')(value) === undefined,
);

type CodeParts = { readonly executor: CodeExecutor; readonly cache: WorkspaceCache };

/** Finds code by the names that checkpoints hold: code itself is never stored. */
export class AgentRegistry {
  readonly #tools = new Map<string, Tool>();
  readonly #models = new Map<string, ChatModel>();
  readonly #codeParts = new Map<string, CodeParts>();
  readonly #codeFolders = new Set<string>();
  /** What agents that the program made may do with code, by name. */
  readonly #agentCode = new Map<string, CodeExecutionConfig>();
  readonly #options: AgentRegistryOptions;

  constructor(options: AgentRegistryOptions = {}) {
    checkOptions(options, OPTIONS, 'new AgentRegistry()');
    this.#options = options;
    for (const tool of options.tools ?? []) this.addTool(tool);
    for (const [id, model] of Object.entries(options.models ?? {})) this.addModel(id, model);
    for (const folder of options.allowCode ?? []) this.allowCode(folder);
  }

  /** Adds what an agent that a program made brings along: its tools, its model, and which code it may run. */
  addAgent({ name, tools, model, given: { codeExecution } }: StandardAgent): void {
    for (const tool of tools) this.addTool(tool);
    if (model !== undefined) this.addModel(modelIdOf(model), model);
    if (codeExecution !== undefined) this.limitCode(name, codeExecution);
  }

  /** Says which code an agent may run at most, whatever a restored state asks for. */
  limitCode(agent: string, limits: CodeExecutionConfig): void {
    this.#agentCode.set(agent, limits);
  }

  /** Adds a tool. Two tools of one name must be the same. */
  addTool(tool: Tool): void {
    const known = this.#tools.get(tool.name);
    if (known !== undefined && known !== tool) {
      throw new InvalidInputError(`There are two tools named "${tool.name}". Give one of them another name.`, {
        details: { tool: tool.name },
      });
    }
    this.#tools.set(tool.name, tool);
  }

  tool(name: string): Tool | undefined {
    return this.#tools.get(name);
  }

  addModel(id: string, model: ChatModel | LanguageModel): void {
    this.#models.set(id, 'reply' in model ? model : fromLanguageModel(model));
  }

  /** A model that was given as an object, by its id. */
  model(id: string): ChatModel | undefined {
    return this.#models.get(id);
  }

  /** Whether a model that was given as an object is known by this id. */
  hasModel(id: string): boolean {
    return this.#models.has(id);
  }

  /** The model of an agent, built at its first use; undefined if the agent has none. */
  modelFor({ name, modelId, llmConfig }: Pick<AgentState, 'name' | 'modelId' | 'llmConfig'>): ChatModel | undefined {
    if (modelId !== null) {
      const model = this.#models.get(modelId);
      if (model !== undefined) return model;
      throw new NotFoundError(
        `Agent "${name}" needs the model "${modelId}", which is not registered. Add it to the registry's models.`,
        { details: { agent: name, modelId } },
      );
    }
    return llmConfig === null ? undefined : this.#build(llmConfig);
  }

  #build(config: LlmConfig): ChatModel {
    const key = JSON.stringify(config);
    const known = this.#models.get(key);
    if (known !== undefined) return known;
    const { env = {}, allowedHosts } = this.#options;
    const model = buildModel(config, { env, ...(allowedHosts !== undefined && { allowedHosts }) });
    this.#models.set(key, model);
    return model;
  }

  /** Lets agents run code in a folder, and below it. */
  allowCode(folder: string): void {
    this.#codeFolders.add(folder);
  }

  /** Whether code may be run in a folder that a configuration names. */
  allowsCode({ workDir }: { readonly workDir: string }): boolean {
    return this.#allowsAnyCode(workDir) || this.#limitsIn(workDir).length > 0;
  }

  #allowsAnyCode(workDir: string): boolean {
    if (this.#options.createExecutor !== undefined) return true;
    return [...this.#codeFolders].some((folder) => isWithin(folder, workDir));
  }

  #limitsIn(workDir: string): CodeExecutionConfig[] {
    return [...this.#agentCode.values()].filter((limits) => limits !== false && isWithin(limits.workDir, workDir));
  }

  /** What of the code that a state asks for is allowed: never more than the program gave the agent, or those who run code in its folder. */
  permitCode(
    { name, codeExecution }: Pick<AgentState, 'name' | 'codeExecution'>,
    given?: CodeExecutionConfig,
  ): CodeExecutionConfig {
    if (codeExecution === false || !this.allowsCode(codeExecution)) return false;
    const { workDir } = codeExecution;
    const own = this.#agentCode.get(name);
    const limits = own === undefined && !this.#allowsAnyCode(workDir) ? this.#limitsIn(workDir) : [];
    return [own, ...limits, given].filter((limit) => limit !== undefined).reduce(narrowCode, codeExecution);
  }

  /** What runs code by this configuration, and what is known of the files it works on. */
  codeParts(config: Exclude<CodeExecutionConfig, false>): CodeParts {
    const key = JSON.stringify(config);
    const known = this.#codeParts.get(key);
    if (known !== undefined) return known;
    const { createExecutor, env } = this.#options;
    const executor =
      createExecutor?.(config) ?? new LocalCodeExecutor(config, env === undefined ? {} : { environment: env });
    const parts = { executor, cache: new WorkspaceCache() };
    this.#codeParts.set(key, parts);
    return parts;
  }

  maker(agentType: string): AgentMaker | undefined {
    return this.#options.agents?.[agentType];
  }

  predicate(name: string): EndPredicate | undefined {
    return this.#options.predicates?.[name];
  }

  selector(name: string): SpeakerSelector | undefined {
    return this.#options.selectors?.[name];
  }
}

/** The id by which checkpoints name a model that was given as an object. */
export function modelIdOf(model: ChatModel | LanguageModel): string {
  return 'reply' in model ? model.id : `${model.provider}/${model.modelId}`;
}
