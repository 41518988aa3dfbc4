import {
  accepts,
  anything,
  callback,
  checkOptions,
  describeValue,
  filledString,
  flag,
  isRecord,
  listOf,
  type OptionCheck,
  type OptionChecks,
  oneOf,
  options,
  orNull,
  record,
  signal,
  string,
  wholeFrom,
} from '../../core/options.ts';
import type { AgentOverride, StandardAgentOptions } from './agent-options.ts';
import type { ReplyOptions } from './reply.ts';
import type { RuntimeFlags } from './runtime-flags.ts';

/** Accepts some of the flags of an agent. */
export const runtimeFlags: OptionCheck = options({
  stream: flag,
  store: flag,
  checkpoint: flag,
} satisfies OptionChecks<RuntimeFlags>);

/** Accepts the agents of a team. */
export const standardAgents: OptionCheck = listOf(
  accepts('a StandardAgent', (value) => isRecord(value) && ['respond', 'saveState'].every((name) => name in value)),
);

const model: OptionCheck = (value) => {
  if (isRecord(value) && ('reply' in value || ('provider' in value && 'modelId' in value))) return undefined;
  return `must be a model given as an object; found ${describeValue(value)}. Name a model in llmConfig: { provider: "openai", model: "..." }`;
};

const tool: OptionCheck = (value) => {
  if (!isRecord(value)) return `must be a tool made with defineTool(); found ${describeValue(value)}`;
  const missing = ['name', 'description', 'input', 'run'].filter((key) => value[key] === undefined);
  return missing.length === 0 ? undefined : `lacks ${missing.join(', ')}; make tools with defineTool()`;
};

const humanInputMode = oneOf('ALWAYS', 'TERMINATE', 'NEVER');

const MADE: OptionChecks<StandardAgentOptions> = {
  // The name and the configurations of models and code are checked where they are read.
  name: anything,
  systemMessage: string,
  description: string,
  llmConfig: anything,
  model,
  codeExecution: anything,
  tools: listOf(tool),
  humanInputMode,
  maxConsecutiveAutoReplies: wholeFrom(0),
  maxToolRounds: wholeFrom(1),
  defaultReply: string,
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
  systemMessage: string,
  description: string,
  // Checked where it is read.
  llmConfig: anything,
  modelId: orNull(filledString),
  humanInputMode,
  maxConsecutiveAutoReplies: orNull(wholeFrom(0)),
  maxToolRounds: wholeFrom(1),
};

/** Refuses what cannot be changed of an agent on purpose. */
export function checkOverride(given: unknown, of: string): void {
  checkOptions(given, OVERRIDE, of);
}

const REPLY: OptionChecks<ReplyOptions> = {
  registry: record,
  partner: filledString,
  remembers: flag,
  idempotencyKey: filledString,
  signal,
  onText: callback,
};

/** Refuses what an agent cannot be asked with. */
export function checkReply(given: unknown): void {
  checkOptions(given, REPLY, 'reply()');
}
