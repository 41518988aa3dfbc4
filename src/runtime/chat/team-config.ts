import { InvalidInputError } from '../../core/errors.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { loadAgent, makeBy } from '../agent/load-agents.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { Tool } from '../agent/tool.ts';
import { parseCodeExecutionConfig } from '../code/code-executor.ts';
import { problemsError } from '../config/problem.ts';
import { checkSchema } from '../config/schema-problems.ts';
import { yamlSource } from '../config/yaml-source.ts';
import { findLosses } from '../run/differences.ts';
import type { EndRules } from './chat-end.ts';
import { GroupChat, type GroupChatOptions } from './group-chat.ts';
import { type TeamAgentConfig, type TeamConfig, teamSchema } from './team-schema.ts';

/** Reads a `team.yaml`; throws an InvalidInputError with all problems, by line and column. */
export function parseTeam(text: string, { source = 'team.yaml' }: { readonly source?: string } = {}): TeamConfig {
  const file = yamlSource(text);
  const { value, problems } = checkSchema({ source: file, schema: teamSchema, value: file.data, path: [] });
  if (value === undefined || file.problems.length > 0)
    throw problemsError(`"${source}"`, file.problems.length > 0 ? file.problems : problems);
  return value;
}

/** Makes the group chat that a configuration describes, with the code of a registry. */
export function createTeam(config: TeamConfig, registry = new AgentRegistry()): GroupChat {
  const agents = config.agents.map((agent) => createAgent(agent, registry));
  return new GroupChat({ agents, registry, ...describeChat(config, registry) });
}

function createAgent(config: TeamAgentConfig, registry: AgentRegistry): StandardAgent {
  const options = describeAgent(config, registry);
  checkCode(config.name, options, registry);
  if (config.class === undefined) return new StandardAgent(options);
  const maker = registry.maker(config.class);
  if (maker === undefined) throw unregistered('class', config.class, config.name);
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
  if (config.model !== undefined && model === undefined) throw unregistered('model', config.model, config.name);
  return {
    name: config.name,
    tools: (config.tools ?? []).map((name) => openTool(registry, name, config.name)),
    ...defined({
      systemMessage: config.system_message,
      description: config.description,
      llmConfig: config.llm,
      model,
      humanInputMode: config.human_input_mode,
      maxConsecutiveAutoReplies: config.max_consecutive_auto_replies,
      maxToolRounds: config.max_tool_rounds,
      defaultReply: config.default_reply,
      codeExecution: config.code_execution,
      runtime: config.runtime && defined(config.runtime),
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
  const selector = config.selector_model === undefined ? config.selector : registry.model(config.selector_model);
  if (config.selector_model !== undefined && selector === undefined)
    throw unregistered('model', config.selector_model, 'the selection of speakers');
  return defined({
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
  return defined({
    signals: end.signals,
    pattern: end.pattern === undefined ? undefined : { source: end.pattern },
    predicate: end.predicate,
    maxTokens: end.max_tokens,
    maxCostUsd: end.max_cost_usd,
  });
}

function openTool(registry: AgentRegistry, name: string, agent: string): Tool {
  const tool = registry.tool(name);
  if (tool === undefined) throw unregistered('tool', name, agent);
  return tool;
}

function unregistered(what: string, name: string, user: string): InvalidInputError {
  return new InvalidInputError(
    `"${user}" needs the ${what} "${name}", which the registry does not have. Name a module with it under "registry".`,
    { details: { [what]: name } },
  );
}

/** The fields that have a value. */
function defined<Fields extends object>(fields: Fields): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
