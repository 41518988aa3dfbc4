import type { JsonValue } from '../../core/value/json.ts';

export type { JsonValue } from '../../core/value/json.ts';

/** An object that JSON can hold. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** A message in the form of the AI SDK, spelt out here so that types hold without the package. */
export type ModelMessage = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string | readonly MessagePart[];
  readonly providerOptions?: unknown;
};

/** A part of a message. Which fields it has follows from its type: `text`, `reasoning`, `image`, `file`, `tool-call`, `tool-result` and others. */
export type MessagePart = {
  readonly type: string;
  readonly text?: string;
  readonly image?: unknown;
  readonly data?: unknown;
  readonly mediaType?: string | undefined;
  readonly filename?: string | undefined;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly providerExecuted?: boolean | undefined;
  readonly providerOptions?: unknown;
};

/** A tool as a model is told of it. Who runs it, and whether, is decided elsewhere. */
export type ToolSpec = {
  readonly name: string;
  readonly description?: string;
  /** A JSON Schema object. */
  readonly inputSchema: JsonObject;
};

/** How a model is to answer; what is absent is left to the provider. */
export type ModelSettings = {
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly maxOutputTokens?: number;
  readonly seed?: number;
  readonly stopSequences?: readonly string[];
  /** The longest that one attempt may take. */
  readonly timeoutMs?: number;
  /** What only one provider knows, by its name: `{ openai: { reasoningEffort: 'low' } }`. */
  readonly providerOptions?: ProviderData;
};

/** What belongs to one provider and is opaque to everybody else, by the provider's name. */
export type ProviderData = Readonly<Record<string, JsonObject>>;

/** One request to a model, as plain data; its digest is the input of the recorded effect. */
export type ModelRequest = {
  readonly system?: string;
  /** Messages of the AI SDK, stored verbatim with what providers put on them. */
  readonly messages: readonly ModelMessage[];
  readonly tools?: readonly ToolSpec[];
  readonly toolChoice?: 'auto' | 'none' | 'required';
  readonly settings?: ModelSettings;
};

/** A tool that a model wants to have called. */
export type ToolCall = {
  readonly id: string;
  readonly name: string;
  /** The parsed arguments; the text as it came if it is no JSON. */
  readonly input: unknown;
  /** Set if the call cannot be run as it stands: no such tool, or arguments that are no JSON. In words a model can act on. */
  readonly problem?: string;
};

/** The tokens one request used; 0 where the provider does not say. */
export type ModelUsage = {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
  /** How many of the input tokens the provider had cached, if it says so. */
  readonly cachedInputTokens?: number;
};

/** What came back, as plain data that can be stored. */
export type ModelReply = {
  /** The assistant's messages exactly as they are to be sent back later, with what the provider put on them. */
  readonly messages: readonly ModelMessage[];
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  /** `stop`, `length`, `content-filter`, `tool-calls`, `error`, `other`. */
  readonly finishReason: string;
  readonly usage: ModelUsage;
  /** Set if the prices of the model were given. */
  readonly costUsd?: number;
  /** The model that answered, as the provider names it. */
  readonly model: string;
  /** What the provider said about the reply as a whole, such as its `responseId`. */
  readonly providerData?: ProviderData;
  /** Settings that the model does not take, and the like. */
  readonly warnings?: readonly string[];
};

/** What accompanies one call without being part of the request. */
export type CallOptions = {
  readonly signal?: AbortSignal;
  /** The same for every attempt of one step; sent to the provider as `Idempotency-Key`. */
  readonly idempotencyKey?: string;
  /** Asks for a streamed reply, and gets its text as it comes. */
  readonly onText?: (delta: string) => void;
  /** Called when a streamed reply broke off and begins anew: what `onText` got so far is void. */
  readonly onRestart?: () => void;
};

/** Anything that answers a request: a provider's model, a scripted one, or one of them with retries around it. */
export interface ChatModel {
  readonly id: string;
  reply(request: ModelRequest, options?: CallOptions): Promise<ModelReply>;
}

/** A language model of the AI SDK (`ai` 6 and 7). Spelt out here, so that types hold without the package. */
export interface LanguageModel {
  readonly specificationVersion: 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: PromiseLike<Record<string, RegExp[]>> | Record<string, RegExp[]>;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<unknown>;
}

/** What a model costs. There is no table of prices in here: they change, so whoever wants costs says what they are. */
export type ModelPrices = {
  readonly inputPerMillionUsd: number;
  readonly outputPerMillionUsd: number;
  /** For input the provider had cached; as other input if absent. */
  readonly cachedInputPerMillionUsd?: number;
};

/** What a request cost. */
export function costUsd(usage: ModelUsage, prices: ModelPrices): number {
  const { inputPerMillionUsd, outputPerMillionUsd, cachedInputPerMillionUsd = inputPerMillionUsd } = prices;
  const cachedTokens = Math.min(usage.cachedInputTokens ?? 0, usage.inputTokens);
  const microUsd =
    (usage.inputTokens - cachedTokens) * inputPerMillionUsd +
    cachedTokens * cachedInputPerMillionUsd +
    usage.outputTokens * outputPerMillionUsd;
  return microUsd / 1_000_000;
}
