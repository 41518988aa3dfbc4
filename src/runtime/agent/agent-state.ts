import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { visitLeftOut } from '../../core/secret/left-out.ts';
import type { CodeExecutionConfig } from '../code/code-executor.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import type { WorkspaceState } from '../workspace/workspace-state.ts';
import type { ChatMessage } from './chat-message.ts';
import type { HumanInputMode } from './reply.ts';

/** What an agent has used so far. */
export type AgentTotals = {
  readonly modelCalls: number;
  readonly toolCalls: number;
  readonly codeRuns: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costUsd: number;
};

/** Everything about an agent that is not code: what a checkpoint holds of it. */
export type AgentState = {
  readonly name: string;
  /** The class, by its registered name. */
  readonly agentType: string;
  readonly systemMessage: string;
  readonly description: string;
  readonly llmConfig: LlmConfig | null;
  /** The name of a model that was given as an object. */
  readonly modelId: string | null;
  /** The tools by name, each with the fingerprint of what models were told of it. */
  readonly tools: Readonly<Record<string, string>>;
  readonly humanInputMode: HumanInputMode;
  /** Null: no limit. */
  readonly maxConsecutiveAutoReplies: number | null;
  readonly maxToolRounds: number;
  /** Said when there is neither a model nor code to run; empty: nothing is said. */
  readonly defaultReply: string;
  readonly codeExecution: CodeExecutionConfig;
  /** The working directory after the last code it ran; null before that, or if it is not captured. */
  readonly workspace: WorkspaceState | null;
  readonly status: AgentStatus;
  readonly statusBeforePause: AgentStatus | null;
  /** How often it replied by itself since a person last spoke for it, by partner. */
  readonly autoReplies: Readonly<Record<string, number>>;
  /** Its own copy of each conversation, by partner. */
  readonly histories: Readonly<Record<string, readonly ChatMessage[]>>;
  readonly totals: AgentTotals;
  readonly runtime: RuntimeFlags;
  /** The memories that its last prompt was filled with. */
  readonly memoryIds: readonly string[];
  /** The public fields of a subclass, by name; absent without a subclass, and in older states. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** What a subclass keeps. */
  readonly custom?: unknown;
};

export const NO_TOTALS: AgentTotals = {
  modelCalls: 0,
  toolCalls: 0,
  codeRuns: 0,
  inputTokens: 0,
  outputTokens: 0,
  costUsd: 0,
};

/** The sum of two. */
export function addTotals(a: AgentTotals, b: AgentTotals): AgentTotals {
  return mapValues(NO_TOTALS, (_, field) => a[field] + b[field]);
}

/** How much more the first used than the second. */
export function subtractTotals(a: AgentTotals, b: AgentTotals): AgentTotals {
  return mapValues(NO_TOTALS, (_, field) => a[field] - b[field]);
}

/** What every message must have. */
export const messageSchema = z.looseObject({ name: z.string(), content: z.string() });
const count = z.number().nonnegative();
const status = z.custom<AgentStatus>(
  (value) => typeof value === 'string' && Object.hasOwn(TRANSITIONS, value),
  'is no status',
);

const schema = z.looseObject({
  name: z.string().min(1),
  agentType: z.string().min(1),
  systemMessage: z.string(),
  description: z.string(),
  llmConfig: z.looseObject({ provider: z.string(), model: z.string() }).nullable(),
  modelId: z.string().nullable(),
  tools: z.record(z.string(), z.string()),
  humanInputMode: z.enum(['NEVER', 'TERMINATE', 'ALWAYS']),
  maxConsecutiveAutoReplies: z.int().nonnegative().nullable(),
  maxToolRounds: z.int().positive(),
  defaultReply: z.string(),
  codeExecution: z.union([z.literal(false), z.looseObject({ workDir: z.string() })]),
  workspace: z.looseObject({ entries: z.looseObject({}) }).nullable(),
  status,
  statusBeforePause: status.nullable(),
  autoReplies: z.record(z.string(), z.int().nonnegative()),
  histories: z.record(z.string(), z.array(messageSchema)),
  runtime: z.looseObject({ stream: z.boolean(), store: z.boolean(), checkpoint: z.boolean() }),
  memoryIds: z.array(z.string()),
  fields: z.record(z.string(), z.unknown()).optional(),
  totals: z.looseObject({ modelCalls: count, toolCalls: count, codeRuns: count, costUsd: count }),
});

/** Checks the form of a stored agent; throws an InvalidInputError that names the first wrong field, or says whose state it is. */
export function parseAgentState(value: unknown): AgentState {
  const parsed = schema.safeParse(value);
  if (parsed.success) return value as AgentState;
  const { kind, agentType } = isRecord(value) ? value : {};
  checkWords(value, 'agent');
  if (typeof kind === 'string' && agentType === undefined)
    throw new InvalidInputError(
      `This is the state of a ${kind.replaceAll('_', ' ')}, not of an agent. Restore it with ${RESTORERS[kind] ?? 'what saved it'}.`,
      { details: { kind } },
    );
  const issues = parsed.error.issues.map(({ path, message: problem }) => `${path.join('.')}: ${problem}`);
  throw new InvalidInputError(
    `This is not the state of an agent: ${issues[0]}. Restore a checkpoint that an agent was saved in; or, if it was edited, fork it with a value of the right type.`,
    { details: { issues } },
  );
}

/** A message that was nothing but a secret has no words: those who go on would be told something else than was said. */
function checkWords(value: unknown, noun: string): void {
  const places: string[] = [];
  visitLeftOut(value, {
    secret: (path) => void (path.at(-1) === 'content' && places.push(formatPath(path))),
  });
  if (places.length === 0) return;
  throw new InvalidInputError(
    `This ${noun} was told a message that is nothing but a secret, which is not stored: ${places.join(', ')}. Fork the checkpoint with a text at each of these places, and go on from the fork.`,
    { details: { places } },
  );
}

/** What the state of a team of one kind must have, besides its agents. */
export function teamSchema<Record extends z.ZodRawShape>(kind: string, record: Record) {
  return z.looseObject({
    kind: z.literal(kind),
    formatVersion: z.literal(1),
    order: z.array(z.string()).min(1),
    agents: z.record(z.string(), z.unknown()),
    ...record,
  });
}

type TeamForm = {
  readonly kind: string;
  readonly schema: z.ZodType;
  /** What people call it, such as "conversation". */
  readonly noun: string;
  readonly advice: string;
};

/** Checks that a state is one of this kind of team, whole; throws an InvalidInputError that says what it is instead. */
export function checkTeamState(value: unknown, { kind, schema, noun, advice }: TeamForm): void {
  const parsed = schema.safeParse(value);
  const found = isRecord(value) ? value.kind : undefined;
  if (!parsed.success) {
    if (found === kind) checkWords(value, noun);
    throw new InvalidInputError(
      found === kind
        ? `The state of this ${noun} is not complete: ${z.prettifyError(parsed.error)}`
        : `This checkpoint does not hold a ${noun}${advice}`,
      { details: { kind: typeof found === 'string' ? found : typeof value } },
    );
  }
  const { order, agents } = value as { order: readonly string[]; agents: Readonly<Record<string, unknown>> };
  const missing = order.filter((name) => agents[name] === undefined);
  if (missing.length > 0)
    throw new InvalidInputError(`The ${noun} names agents that it does not hold: ${missing.join(', ')}.`);
  for (const agent of Object.values(agents)) parseAgentState(agent);
}

/** What restores teams, by the kind of their states. */
const RESTORERS: Readonly<Record<string, string>> = { group_chat: 'a CheckpointRestorer', fleet: 'a FleetRestorer' };

/** What an agent is doing. */
export type AgentStatus =
  | 'initializing'
  | 'running'
  | 'waiting_for_input'
  | 'waiting_for_approval'
  | 'paused'
  | 'completed'
  | 'error'
  | 'cancelled';

/** Which status may follow which. An agent that ended may be started again: that is what a restore is for. */
const TRANSITIONS: Readonly<Record<AgentStatus, readonly AgentStatus[]>> = {
  initializing: ['running', 'error', 'cancelled'],
  running: ['waiting_for_input', 'waiting_for_approval', 'paused', 'completed', 'error', 'cancelled'],
  waiting_for_input: ['running', 'paused', 'completed', 'error', 'cancelled'],
  waiting_for_approval: ['running', 'paused', 'completed', 'error', 'cancelled'],
  paused: ['initializing', 'running', 'waiting_for_input', 'waiting_for_approval', 'cancelled'],
  completed: ['running'],
  error: ['running', 'cancelled'],
  cancelled: ['running'],
};

/** The status after a change; throws if it may not follow. The same status again is no change. */
export function changeStatus(from: AgentStatus, to: AgentStatus): AgentStatus {
  if (from === to || TRANSITIONS[from].includes(to)) return to;
  throw new InvalidInputError(
    `An agent that is ${from} cannot become ${to}. From ${from} it can become: ${TRANSITIONS[from].join(', ')}.`,
    { details: { from, to } },
  );
}

/** What a runtime does with an agent's words and state. */
export type RuntimeFlags = {
  /** Its words are passed on while they come; default true. */
  readonly stream: boolean;
  /** What it says is remembered in long-term memory; default false. */
  readonly store: boolean;
  /** Its changes are saved by themselves; default true. */
  readonly checkpoint: boolean;
};

export const DEFAULT_RUNTIME: RuntimeFlags = { stream: true, store: false, checkpoint: true };

const MAX_INTRODUCTION_CHARS = 200;

/** What others are told of an agent: its description; without one, the first sentence of its prompt. The rest of that is for itself alone. */
export function introduce({ description, systemMessage }: AgentState): string {
  if (description !== systemMessage) return description;
  const text = systemMessage.replaceAll(/\{memory[^}]*\}/g, '').trim(); // memory is not filled in yet
  const sentence = /^.*?(?:[.!?](?=\s|$)|\n|$)/s.exec(text)?.[0].trim() ?? '';
  return sentence.slice(0, MAX_INTRODUCTION_CHARS);
}

/** What makes a conversation of a state what it was in an earlier one. */
export function forgetPartner(
  { histories, autoReplies }: AgentState,
  before: AgentState,
  partner: string,
): Pick<AgentState, 'histories' | 'autoReplies'> {
  const takeBack = <Value>(values: Readonly<Record<string, Value>>, old: Readonly<Record<string, Value>>) => {
    const { [partner]: _, ...rest } = values;
    const value = old[partner];
    return value === undefined ? rest : { ...rest, [partner]: value };
  };
  return {
    histories: takeBack(histories, before.histories),
    autoReplies: takeBack(autoReplies, before.autoReplies),
  };
}
