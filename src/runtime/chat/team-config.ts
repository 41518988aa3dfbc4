import { z } from 'zod';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { loadAgent, makeBy } from '../agent/load-agents.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { Tool } from '../agent/tool.ts';
import { type CodeExecutionConfig, parseCodeExecutionConfig } from '../code/code-executor.ts';
import { type KeyPath, problemsError } from '../config/problem.ts';
import { checkSchema } from '../config/schema-problems.ts';
import { dataSource, type ProblemSource, yamlSource } from '../config/yaml-source.ts';
import { type LlmConfig, parseLlmConfig } from '../model/llm-config.ts';
import { findLosses } from '../run/differences.ts';
import type { EndRules } from './chat-end.ts';
import { GroupChat, type GroupChatOptions } from './group-chat.ts';

/** Reads a `team.yaml`; throws an InvalidInputError with all problems, by line and column. */
export function parseTeam(text: string, { source = 'team.yaml' }: { readonly source?: string } = {}): TeamConfig {
  const file = yamlSource(text);
  const { value, problems } = checkSchema({ source: file, schema: teamSchema, value: file.data, path: [] });
  if (value === undefined || file.problems.length > 0)
    throw problemsError(`"${source}"`, file.problems.length > 0 ? file.problems : problems);
  SOURCES.set(value, { file, name: `"${source}"` });
  return value;
}

/** A team file, so that what is wrong with its meaning can be placed, too. */
type TeamFile = { readonly file: ProblemSource; readonly name: string };

const SOURCES = new WeakMap<TeamConfig, TeamFile>();

/** Makes the group chat that a configuration describes, with the code of a registry; says where in the file it is what it cannot make. */
export function createTeam(config: TeamConfig, registry = new AgentRegistry()): GroupChat {
  const team = SOURCES.get(config) ?? { file: dataSource(config), name: 'The team' };
  const agents = config.agents.map((agent, at) => {
    const path = ['agents', at];
    const options = makePlaced(team, path, () => describeAgent(agent, registry));
    if (agent.llm !== undefined) makePlaced(team, [...path, 'llm'], () => parseLlmConfig(agent.llm));
    makePlaced(team, [...path, 'code_execution'], () => checkCode(agent.name, options, registry));
    return makePlaced(team, path, () => createAgent(agent, options, registry));
  });
  return makePlaced(team, [], () => new GroupChat({ agents, registry, ...describeChat(config, registry) }));
}

function makePlaced<Made>({ file, name }: TeamFile, path: KeyPath, make: () => Made): Made {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const { option } = error.details;
    const problem = file.place(typeof option === 'string' ? [...path, ...keysOf(option)] : path, error.message);
    const { message, details } = problemsError(name, [problem]);
    throw new InvalidInputError(message, { details: { ...error.details, ...details }, cause: error });
  }
}

/** The keys of the file for an option of the code: `end.pattern`, `speaker_selection`. */
function keysOf(option: string): KeyPath {
  return option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).split('.');
}

function createAgent(config: TeamAgentConfig, options: StandardAgentOptions, registry: AgentRegistry): StandardAgent {
  if (config.class === undefined) return new StandardAgent(options);
  const maker = registry.maker(config.class);
  if (maker === undefined) throw unregistered('class', config.class, { user: config.name });
  const state = { ...new StandardAgent(options).saveState(), agentType: config.class };
  const agent = makeBy(maker, state);
  const { custom } = agent.saveState();
  const [problem] = findLosses(loadAgent(agent, custom === undefined ? state : { ...state, custom }));
  if (problem === undefined) return agent;
  throw new InvalidInputError(`"${config.name}" is no whole ${config.class}: ${problem.problem}`, {
    details: { agent: config.name, class: config.class },
  });
}

function describeAgent(config: TeamAgentConfig, registry: AgentRegistry): StandardAgentOptions {
  const model = config.model === undefined ? undefined : registry.model(config.model);
  if (config.model !== undefined && model === undefined)
    throw unregistered('model', config.model, { user: config.name });
  return {
    name: config.name,
    tools: (config.tools ?? []).map((name) => openTool(registry, name, config.name)),
    ...withoutUndefined({
      systemMessage: config.system_message,
      description: config.description,
      llmConfig: config.llm,
      model,
      humanInputMode: config.human_input_mode,
      maxConsecutiveAutoReplies: config.max_consecutive_auto_replies,
      maxToolRounds: config.max_tool_rounds,
      defaultReply: config.default_reply,
      codeExecution: config.code_execution,
      runtime: config.runtime && withoutUndefined(config.runtime),
    }),
  };
}

/** A file is data: code runs only where the program, or whoever types the command, allows it. */
function checkCode(name: string, { codeExecution = false }: StandardAgentOptions, registry: AgentRegistry): void {
  const config = parseCodeExecutionConfig(codeExecution);
  if (config === false || registry.allowsCode(config)) return;
  throw new InvalidInputError(
    `The team file asks to run code of "${name}" in "${config.workDir}": code execution is not allowed here. Allow it with --allow-code at the command line, or with allowCode of the registry.`,
    { details: { agent: name, workDir: config.workDir } },
  );
}

function describeChat(config: TeamConfig, registry: AgentRegistry): Partial<GroupChatOptions> {
  if (config.selector !== undefined && config.selector_model !== undefined)
    throw new InvalidInputError('The team file has both a selector and a selector_model. Leave out one of them.', {
      details: { option: 'selector' },
    });
  const selector = config.selector_model === undefined ? config.selector : registry.model(config.selector_model);
  if (config.selector_model !== undefined && selector === undefined)
    throw unregistered('model', config.selector_model, { user: 'the selection of speakers', option: 'selector_model' });
  return withoutUndefined({
    speakerSelection: config.speaker_selection,
    selector,
    allowedTransitions: config.allowed_transitions,
    allowRepeatSpeaker: config.allow_repeat_speaker,
    sendIntroductions: config.introductions,
    seed: config.seed,
    maxRounds: config.max_rounds,
    end: config.end && describeEnd(config.end),
  });
}

function describeEnd(end: NonNullable<TeamConfig['end']>): Partial<EndRules> {
  return withoutUndefined({
    signals: end.signals,
    pattern: end.pattern === undefined ? undefined : { source: end.pattern },
    predicate: end.predicate,
    maxTokens: end.max_tokens,
    maxCostUsd: end.max_cost_usd,
  });
}

function openTool(registry: AgentRegistry, name: string, agent: string): Tool {
  const tool = registry.tool(name);
  if (tool === undefined) throw unregistered('tool', name, { user: agent, option: 'tools' });
  return tool;
}

function unregistered(
  what: string,
  name: string,
  { user, option = what }: { readonly user: string; readonly option?: string },
): InvalidInputError {
  return new InvalidInputError(
    `"${user}" needs the ${what} "${name}", which the registry does not have. Name a module with it under "registry".`,
    { details: { [what]: name, option } },
  );
}

/** A model's configuration is checked where the model is known: its keys depend on the provider. */
const llm = z.custom<LlmConfig>(
  (value) => typeof value === 'object' && value !== null,
  'must be a model configuration',
);

const agent = z.strictObject({
  name: z.string().min(1),
  class: z.string().min(1).optional(),
  system_message: z.string().optional(),
  description: z.string().optional(),
  llm: llm.optional(),
  /** A model of the registry, by its id. */
  model: z.string().min(1).optional(),
  tools: z.array(z.string().min(1)).optional(),
  human_input_mode: z.enum(['NEVER', 'TERMINATE', 'ALWAYS']).optional(),
  max_consecutive_auto_replies: z.int().nonnegative().optional(),
  max_tool_rounds: z.int().positive().optional(),
  default_reply: z.string().optional(),
  code_execution: z.custom<CodeExecutionConfig>().optional(),
  runtime: z
    .strictObject({ stream: z.boolean().optional(), store: z.boolean().optional(), checkpoint: z.boolean().optional() })
    .optional(),
});

/** The form of a `team.yaml`. */
export const teamSchema = z.strictObject({
  agents: z.array(agent).min(1),
  /** A module beside the file that exports `registry`: tools, classes, models, predicates, selectors. */
  registry: z.string().min(1).optional(),
  speaker_selection: z
    .union([z.enum(['auto', 'round_robin', 'random', 'manual']), z.strictObject({ selector: z.string().min(1) })])
    .optional(),
  selector: llm.optional(),
  selector_model: z.string().min(1).optional(),
  allowed_transitions: z.record(z.string(), z.array(z.string())).optional(),
  allow_repeat_speaker: z.boolean().optional(),
  introductions: z.boolean().optional(),
  seed: z.int().optional(),
  max_rounds: z.int().positive().optional(),
  end: z
    .strictObject({
      signals: z.array(z.string().min(1)).optional(),
      pattern: z.string().min(1).optional(),
      predicate: z.string().min(1).optional(),
      max_tokens: z.int().positive().optional(),
      max_cost_usd: z.number().positive().optional(),
    })
    .optional(),
});

/** A team as its file describes it. */
export type TeamConfig = z.output<typeof teamSchema>;

/** One agent of it. */
export type TeamAgentConfig = TeamConfig['agents'][number];
