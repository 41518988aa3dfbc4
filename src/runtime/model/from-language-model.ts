import type { ModelMessage as SdkMessage, ToolSet } from 'ai';
import { ModelError, UnsupportedError } from '../../core/errors.ts';
import { importPeer } from '../../core/import-peer.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import {
  type CallOptions,
  type ChatModel,
  costUsd,
  type ModelPrices,
  type ModelReply,
  type ModelRequest,
  type ModelUsage,
  type ProviderData,
  type ToolCall,
} from './chat-model.ts';
import type { LanguageModel } from './language-model.ts';
import { describeFailure } from './model-failure.ts';
import { type LanguageModelResult, type LanguageModelV3, StreamContent } from './stream-content.ts';

type Sdk = typeof import('ai');
type SdkResult = Awaited<ReturnType<Sdk['generateText']>>;

/** What the AI SDK does not know about a model. */
export type LanguageModelOptions = {
  /** Answers `ChatModel.id`; `provider:model` if absent. */
  readonly id?: string;
  readonly prices?: ModelPrices;
  /** Keys in use, which a server may echo: they are taken out of errors. */
  readonly secrets?: readonly string[];
  readonly now?: () => number;
};

const VERSIONS = new Set<string>(['v3', 'v4']);

/** As long as OpenAI's own clients wait; a request that never ends would hold a run for ever. */
const DEFAULT_TIMEOUT_MS = 600_000;

/**
 * Makes a ChatModel of any language model of the AI SDK. Tools are never executed in here, and one call makes one request:
 * put `withRetries` around it for more.
 */
export function fromLanguageModel(model: LanguageModel, options: LanguageModelOptions = {}): ChatModel {
  const { id = `${model.provider}:${model.modelId}`, prices, secrets = [], now = Date.now } = options;
  if (!VERSIONS.has(model.specificationVersion))
    throw new UnsupportedError(
      `${id} is of version ${model.specificationVersion} of the AI SDK's interface. Use a provider package for ai 6 or 7, which have v3 and v4.`,
    );
  return {
    id,
    async reply(request, call = {}) {
      try {
        const { timeoutMs = DEFAULT_TIMEOUT_MS } = request.settings ?? {};
        const deadline = { signal: call.signal, timeoutMs, onTimeout: () => describeTimeout(id, timeoutMs) };
        const reply = await withDeadline(deadline, (signal) => ask(model, request, { ...call, signal }));
        return prices === undefined ? reply : { ...reply, costUsd: costUsd(reply.usage, prices) };
      } catch (error) {
        if (call.signal?.aborted) throw call.signal.reason;
        throw error instanceof ListenerFailure ? error.cause : describeFailure(error, { model: id, secrets, now });
      }
    },
  };
}

async function ask(model: LanguageModel, request: ModelRequest, call: CallOptions): Promise<ModelReply> {
  const sdk = await importPeer('ai', () => import('ai'));
  const warnings: string[] = [];
  const quiet = quietLanguageModel(model, {
    toolChoice: request.toolChoice,
    onText: guardListener(call),
    onWarning: (warning) => warnings.push(warning),
  });
  const result = await sdk.generateText({ model: quiet, ...toSdkRequest(sdk, request), ...toSdkCall(call) });
  return toReply(result, warnings);
}

/** An error of the caller's own `onText`: it is the caller's, and not the model's. */
class ListenerFailure extends Error {}

/** Hands on text until the call is over: a model that does not heed its signal must not talk into the next attempt. */
function guardListener({ onText, signal }: CallOptions): CallOptions['onText'] {
  if (onText === undefined) return undefined;
  return (delta) => {
    if (delta === '' || signal?.aborted) return;
    try {
      onText(delta);
    } catch (cause) {
      throw new ListenerFailure('onText failed.', { cause });
    }
  };
}

function toSdkRequest(sdk: Sdk, { system, messages, tools = [], settings = {} }: ModelRequest) {
  const { timeoutMs: _, stopSequences, providerOptions, ...rest } = settings;
  return {
    ...rest,
    ...(stopSequences !== undefined && { stopSequences: [...stopSequences] }),
    ...(providerOptions !== undefined && { providerOptions: providerOptions as SdkProviderOptions }),
    ...(system !== undefined && { system }),
    ...(tools.length > 0 && { tools: toSdkTools(sdk, tools) }),
    messages: [...messages] as SdkMessage[],
    allowSystemInMessages: true,
  };
}

type SdkProviderOptions = NonNullable<Parameters<LanguageModelV3['doGenerate']>[0]['providerOptions']>;

/** Without `execute`, so that the AI SDK never runs one. */
function toSdkTools({ tool, jsonSchema }: Sdk, tools: NonNullable<ModelRequest['tools']>): ToolSet {
  const entries = tools.map(({ name, description, inputSchema }) => [
    name,
    tool({ ...(description !== undefined && { description }), inputSchema: jsonSchema(inputSchema) }),
  ]);
  return Object.fromEntries(entries) as ToolSet;
}

function toSdkCall({ signal, idempotencyKey }: CallOptions) {
  return {
    maxRetries: 0, // retries are ours: theirs would be neither recorded nor governed by our policy
    ...(signal !== undefined && { abortSignal: signal }),
    ...(idempotencyKey !== undefined && { headers: { 'Idempotency-Key': idempotencyKey } }),
  };
}

function toReply(result: SdkResult, warnings: readonly string[]): ModelReply {
  return {
    messages: result.response.messages.filter(({ role }) => role === 'assistant').map(dropUndefined),
    text: result.text,
    toolCalls: result.toolCalls.filter(({ providerExecuted }) => providerExecuted !== true).map(toToolCall),
    finishReason: result.finishReason,
    usage: toModelUsage(result.usage),
    model: result.response.modelId,
    ...toProviderData(result.providerMetadata),
    ...(warnings.length > 0 && { warnings }),
  };
}

/** A call that cannot be run is still a call: a provider wants an answer to it. */
function toToolCall(call: SdkResult['toolCalls'][number]): ToolCall {
  const { toolCallId, toolName, input } = call;
  const problem = call.dynamic === true && call.invalid === true ? describeProblem(call) : undefined;
  return { id: toolCallId, name: toolName, input, ...(problem !== undefined && { problem }) };
}

function describeProblem({ toolName, error }: { readonly toolName: string; readonly error?: unknown }): string {
  return error instanceof Error && error.name === 'AI_NoSuchToolError'
    ? `There is no tool "${toolName}".`
    : `The arguments for the tool "${toolName}" are not valid JSON. Call it again with a JSON object.`;
}

function toModelUsage({ inputTokens, outputTokens, totalTokens, inputTokenDetails }: SdkResult['usage']): ModelUsage {
  const input = toCount(inputTokens);
  const output = toCount(outputTokens);
  const cached = toCount(inputTokenDetails?.cacheReadTokens);
  return {
    inputTokens: input,
    outputTokens: output,
    totalTokens: totalTokens === undefined ? input + output : toCount(totalTokens),
    ...(cached > 0 && { cachedInputTokens: cached }),
  };
}

/** Servers leave counts out, or send what is none. */
function toCount(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) && value > 0 ? value : 0;
}

function toProviderData(metadata: SdkResult['providerMetadata']): { readonly providerData?: ProviderData } {
  const entries = Object.entries(dropUndefined(metadata ?? {})).filter(([, facts]) => Object.keys(facts).length > 0);
  return entries.length === 0 ? {} : { providerData: Object.fromEntries(entries) as ProviderData };
}

/** The AI SDK writes `undefined` for what is absent. A copy without it is the same in a checkpoint and in JSON. */
function dropUndefined<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(dropUndefined) as Value;
  if (!isPlainObject(value)) return value;
  const entries = Object.entries(value).filter(([, child]) => child !== undefined);
  return Object.fromEntries(entries.map(([key, child]) => [key, dropUndefined(child)])) as Value;
}

function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function describeTimeout(model: string, timeoutMs: number): ModelError {
  return new ModelError(`${model} did not answer within ${timeoutMs} ms. Try again later, or raise timeoutMs.`, {
    details: { model, reason: 'timeout', retryable: true, attempts: 1 },
  });
}

/** What to do with text as it comes, and with warnings; and which tools are to be called. */
type QuietOptions = {
  readonly toolChoice: ModelRequest['toolChoice'];
  readonly onText: ((delta: string) => void) | undefined;
  readonly onWarning: (warning: string) => void;
};

/**
 * A model of any version that hands its warnings to us. The AI SDK would print them, and a library does not print.
 * Streaming happens in here, so that both kinds of reply go the same way from then on.
 */
function quietLanguageModel(model: LanguageModel, options: QuietOptions): LanguageModelV3 {
  const { toolChoice, onText, onWarning } = options;
  const inner = model as LanguageModelV3;
  return {
    // Version 4 has the calls and replies of version 3 as far as they are touched in here, but other files in prompts.
    specificationVersion: (model.specificationVersion === 'v4' ? 'v4' : 'v3') as 'v3',
    provider: model.provider,
    modelId: model.modelId,
    supportedUrls: model.supportedUrls,
    async doGenerate(given) {
      // Told to the AI SDK it would make an error of a reply that calls no tool.
      const call = toolChoice === undefined || !given.tools ? given : { ...given, toolChoice: { type: toolChoice } };
      const { warnings, ...result } = await (onText === undefined
        ? inner.doGenerate(call)
        : stream(inner, call, onText));
      for (const warning of warnings) onWarning(describeWarning(warning));
      return { ...result, warnings: [] };
    },
    doStream: (call) => inner.doStream(call),
  };
}

async function stream(
  model: LanguageModelV3,
  call: Parameters<LanguageModelV3['doGenerate']>[0],
  onText: (delta: string) => void,
): Promise<LanguageModelResult> {
  const { stream: parts } = await model.doStream(call);
  const content = new StreamContent(onText);
  for await (const part of parts) content.add(part);
  return content.finish();
}

function describeWarning(warning: LanguageModelResult['warnings'][number]): string {
  if ('message' in warning) return warning.message;
  const what = `The model does not support ${warning.feature}.`;
  return warning.details === undefined ? what : `${what} ${warning.details}`;
}
