import { z } from 'zod';
import { type Defined, withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { loadAgent, makeBy } from '../agent/load-agents.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { type CodeExecutionConfig, parseCodeExecutionConfig } from '../code/code-executor.ts';
import { type KeyPath, problemsError } from '../config/problem.ts';
import { checkSchema } from '../config/schema-problems.ts';
import { dataSource, type ProblemSource, yamlSource } from '../config/yaml-source.ts';
import { type LlmConfig, parseLlmConfig } from '../model/llm-config.ts';
import { findLosses } from '../run/differences.ts';
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
    // The keys of the file for an option of the code: `end.pattern`, `speaker_selection`.
    const text = typeof option === 'string' ? option : '';
    const keys = text.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).split('.');
    const problem = file.place(text === '' ? path : [...path, ...keys], error.message);
    const { message, details } = problemsError(name, [problem]);
    throw new InvalidInputError(message, { details: { ...error.details, ...details }, cause: error });
  }
}

function createAgent(config: TeamAgentConfig, options: StandardAgentOptions, registry: AgentRegistry): StandardAgent {
  if (config.class === undefined) return new StandardAgent(options);
  const maker = found(registry.maker(config.class), { what: 'class', name: config.class, user: config.name });
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
  const { name, class: _, llm, model, tools = [], runtime, ...rest } = config;
  const find = (tool: string) => found(registry.tool(tool), { what: 'tool', name: tool, user: name, option: 'tools' });
  return {
    ...toOptions(rest),
    name,
    tools: tools.map(find),
    ...withoutUndefined({ llmConfig: llm, runtime: runtime && withoutUndefined(runtime) }),
    ...(model !== undefined && { model: found(registry.model(model), { what: 'model', name: model, user: name }) }),
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
  const { agents: _, registry: __, selector: llm, selector_model: model, introductions, end, ...rest } = config;
  const user = 'the selection of speakers';
  const selector =
    model === undefined
      ? llm
      : found(registry.model(model), { what: 'model', name: model, user, option: 'selector_model' });
  return {
    ...toOptions(rest),
    ...withoutUndefined({ selector, sendIntroductions: introductions, end: end && toOptions(end) }),
  };
}

type CamelCase<Key> = Key extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Key;
type Options<Given> = Defined<{ [Key in keyof Given as CamelCase<Key>]: Given[Key] }>;

/** Keys of the file as options of the code: `max_rounds` is `maxRounds`. */
function toOptions<Given extends object>(given: Given): Options<Given> {
  const rename = (key: string) => key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const options = Object.entries(withoutUndefined(given)).map(([key, value]) => [rename(key), value]);
  return Object.fromEntries(options) as Options<Given>;
}

/** Something of the registry that a file names. */
type Needed = { readonly what: string; readonly name: string; readonly user: string; readonly option?: string };

function found<Found>(value: Found | undefined, { what, name, user, option = what }: Needed): Found {
  if (value !== undefined) return value;
  throw new InvalidInputError(
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
