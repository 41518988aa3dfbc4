import { InvalidInputError } from '../../core/errors.ts';
import { accepts, checkOptions, flag, type OptionChecks, options, record, string } from '../../core/options.ts';
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
