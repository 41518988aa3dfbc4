import { InvalidInputError } from '../../core/errors.ts';
import { accepts, checkOptions, flag, type OptionChecks, options, record, string } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { AgentOverride } from '../agent/agent-options.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ToolOutcome } from '../agent/tool.ts';
import type { LlmConfig } from '../model/llm-config.ts';

/** A message by its number, counted from 1 as in the revision `message 3`. */
export type MessagePlace = number | 'last';

/** A tool's answer: by the id of the call, or by the message in whose turn the tool was called; both narrow the search. */
export type ToolResultPlace = {
  readonly callId?: string;
  readonly message?: MessagePlace;
  readonly tool?: string;
};

/** What is changed of a conversation before it goes on; plain data. */
export type Intervention =
  | { readonly message: MessagePlace; readonly replacement: string }
  | { readonly systemMessage: { readonly agent: string; readonly text: string } }
  /** A config with a `provider` replaces the whole; one without changes only the fields it names. */
  | { readonly llmConfig: { readonly agent: string; readonly config: Partial<LlmConfig> } }
  | { readonly toolResult: ToolResultPlace; readonly replacement: string; readonly isError?: boolean };

/** What a branch says of the intervention it began with. It holds no texts: those are in the states. */
export type InterventionRecord = {
  readonly kind: 'none' | 'message' | 'system_message' | 'llm_config' | 'tool_result';
  /** The checkpoint that was asked for. */
  readonly originId: string;
  /** The checkpoint that was restored: the one at which the changed message was appended, or the turn was begun. */
  readonly baseId: string;
  /** Whose message, prompt, model or turn was changed. */
  readonly agent?: string;
  /** Where the message is in the list of messages: its number less one. */
  readonly index?: number;
  readonly originalChars?: number;
  readonly replacementChars?: number;
  readonly callId?: string;
  readonly tool?: string;
};

const place = accepts(
  'a number, counted from 1, or "last"',
  (value) => value === 'last' || (Number.isSafeInteger(value) && Number(value) >= 1),
);
const text = { required: string };

const CHANGES: Readonly<Record<string, OptionChecks>> = {
  message: { message: { required: place }, replacement: text },
  systemMessage: { systemMessage: { required: options({ agent: text, text }) } },
  llmConfig: { llmConfig: { required: options({ agent: text, config: { required: record } }) } },
  toolResult: {
    toolResult: { required: options({ callId: string, message: place, tool: string }) },
    replacement: text,
    isError: flag,
  },
};

/** The keys that say what is changed; whatever else is given says how the conversation goes on. */
export const INTERVENTION_KEYS = [...new Set(Object.values(CHANGES).flatMap((checks) => Object.keys(checks)))];

/** Checks an intervention before anything is done. It names exactly one thing to change. */
export function checkIntervention(value: Intervention): void {
  const given = Object.entries(value).filter(([key]) => INTERVENTION_KEYS.includes(key));
  const named = given.flatMap(([key]) => (Object.hasOwn(CHANGES, key) ? [key] : []));
  const [checks, another] = named.map((key) => CHANGES[key]);
  if (checks === undefined || another !== undefined) {
    throw new InvalidInputError(
      `An intervention changes one thing of ${Object.keys(CHANGES).join(', ')}; found ${named.join(', ') || 'none'}.`,
    );
  }
  checkOptions(Object.fromEntries(given), checks, 'an intervention');
  if ('toolResult' in value && value.toolResult.callId === undefined && value.toolResult.message === undefined)
    throw new InvalidInputError('toolResult needs the callId, or the message in whose turn the tool was called.');
}

type BaseOfTarget = {
  /** The checkpoint that is restored. */
  readonly base: Checkpoint;
  /** The branch that recorded what came after it, if that is not its own. */
  readonly replayBranch?: string | undefined;
  readonly record: InterventionRecord;
};

/** Other words for one message, which is the last at the base: in the transcript, or generated and pending. */
export type MessageTarget = BaseOfTarget & {
  readonly kind: 'message';
  readonly index: number;
  readonly message: ChatMessage;
  readonly replacement: string;
};

/** Another prompt or model for one agent, or nothing. */
export type AgentTarget = BaseOfTarget & {
  readonly kind: 'agent';
  readonly agent?: string;
  readonly override?: AgentOverride;
};

/** Another answer of a tool: the turn is taken again, from the recording up to there. */
export type ToolTarget = BaseOfTarget & {
  readonly kind: 'tool_result';
  readonly speaker: string;
  readonly callId: string;
  readonly original: ToolOutcome;
  readonly replacement: ToolOutcome;
  /** What the calls after it, made at the same time, were answered: they are not made again. */
  readonly kept: ReadonlyMap<string, ToolOutcome>;
};

/** What an intervention comes to at a given checkpoint. */
export type Target = MessageTarget | AgentTarget | ToolTarget;

/** The same branch without the change, so that nothing but the change tells the two apart. */
export function toControl(target: Target): Target {
  const { originId, baseId } = target.record;
  const place = { ...target, record: { kind: 'none', originId, baseId } as const };
  switch (place.kind) {
    case 'message':
      return { ...place, replacement: place.message.content };
    case 'tool_result':
      return { ...place, replacement: place.original };
    case 'agent':
      return { kind: 'agent', base: place.base, record: place.record };
  }
}
