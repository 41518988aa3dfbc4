import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import type { LlmConfig } from '../model/llm-config.ts';

/** A message by its place in the transcript, counted from 0. */
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
  /** Which message. */
  readonly index?: number;
  readonly originalChars?: number;
  readonly replacementChars?: number;
  readonly callId?: string;
  readonly tool?: string;
};

const place = z.union([z.int().nonnegative(), z.literal('last')]);

const SCHEMAS = {
  message: z.looseObject({ message: place, replacement: z.string() }),
  systemMessage: z.looseObject({ systemMessage: z.strictObject({ agent: z.string(), text: z.string() }) }),
  llmConfig: z.looseObject({ llmConfig: z.strictObject({ agent: z.string(), config: z.looseObject({}) }) }),
  toolResult: z.looseObject({
    toolResult: z
      .strictObject({ callId: z.string().optional(), message: place.optional(), tool: z.string().optional() })
      .refine(({ callId, message }) => callId !== undefined || message !== undefined, {
        error: 'needs the callId, or the message in whose turn the tool was called',
      }),
    replacement: z.string(),
    isError: z.boolean().optional(),
  }),
} as const;

/** Checks an intervention before anything is done. It names exactly one thing to change. */
export function parseIntervention(value: Intervention): Intervention {
  const named = Object.entries(SCHEMAS).filter(([key]) => key in value);
  const [[, schema] = []] = named;
  if (schema === undefined || named.length > 1) {
    throw new InvalidInputError(
      `An intervention changes one thing of ${Object.keys(SCHEMAS).join(', ')}; found ${named.map(([key]) => key).join(', ') || 'none'}.`,
    );
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return value;
  throw new InvalidInputError(`The intervention cannot be read: ${z.prettifyError(parsed.error)}`);
}
