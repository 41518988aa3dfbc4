import type { ModelMessage as SdkMessage, LanguageModel as SdkModel, ToolSet } from 'ai';
import { withoutUndefined } from '../../core/defined.ts';
import { ModelError, UnsupportedError } from '../../core/errors.ts';
import { importPeer } from '../../core/import-peer.ts';
import { isPlainObject } from '../../core/options.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import {
  type CallOptions,
  type ChatModel,
  costUsd,
  type LanguageModel,
  type ModelPrices,
  type ModelReply,
  type ModelRequest,
  type ModelUsage,
  type ProviderData,
  type ToolCall,
} from './chat-model.ts';
import { describeFailure } from './model-failure.ts';

type Sdk = typeof import('ai');
type SdkStep = Awaited<ReturnType<Sdk['generateText']>>['steps'][number];

/** A language model as the AI SDK declares it, of the version that is worked with in here. */
type LanguageModelV3 = Extract<Exclude<SdkModel, string>, { readonly specificationVersion: 'v3' }>;
type StreamResult = Awaited<ReturnType<LanguageModelV3['doStream']>>;
type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never;

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
  const { signal, idempotencyKey } = call;
  const asked = {
    model: quietLanguageModel(model, request.toolChoice, (warning) => warnings.push(describeWarning(warning))),
    ...toSdkRequest(sdk, request),
    maxRetries: 0, // retries are ours: theirs would be neither recorded nor governed by our policy
    ...(signal !== undefined && { abortSignal: signal }),
    ...(idempotencyKey !== undefined && { headers: { 'Idempotency-Key': idempotencyKey } }),
  };
  const onText = guardListener(call);
  if (onText === undefined) return toReply((await sdk.generateText(asked)).steps[0], warnings);
  const result = sdk.streamText({ ...asked, onError: () => undefined }); // it would print them
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') onText(part.text);
    if (part.type === 'error') throw part.error;
  }
  return toReply((await result.steps)[0], warnings);
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
    ...withoutUndefined({
      stopSequences: stopSequences && [...stopSequences],
      providerOptions: providerOptions as SdkProviderOptions | undefined,
      system,
      tools: tools.length > 0 ? toSdkTools(sdk, tools) : undefined,
    }),
    messages: [...messages] as SdkMessage[],
    allowSystemInMessages: true,
  };
}

type SdkProviderOptions = NonNullable<Parameters<LanguageModelV3['doGenerate']>[0]['providerOptions']>;

/** Without `execute`, so that the AI SDK never runs one. */
function toSdkTools({ tool, jsonSchema }: Sdk, tools: NonNullable<ModelRequest['tools']>): ToolSet {
  const entries = tools.map(({ name, description, inputSchema }) => [
    name,
    tool(withoutUndefined({ description, inputSchema: jsonSchema(inputSchema) })),
  ]);
  return Object.fromEntries(entries) as ToolSet;
}

function toReply(result: SdkStep | undefined, warnings: readonly string[]): ModelReply {
  if (result === undefined) throw brokenOff();
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
function toToolCall(call: SdkStep['toolCalls'][number]): ToolCall {
  const { toolCallId: id, toolName: name, input } = call;
  if (call.dynamic !== true || call.invalid !== true) return { id, name, input };
  const problem =
    call.error instanceof Error && call.error.name === 'AI_NoSuchToolError'
      ? `There is no tool "${name}".`
      : `The arguments for the tool "${name}" are not valid JSON. Call it again with a JSON object.`;
  return { id, name, input, problem };
}

function toModelUsage({ inputTokens, outputTokens, totalTokens, inputTokenDetails }: SdkStep['usage']): ModelUsage {
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

function toProviderData(metadata: SdkStep['providerMetadata']): { readonly providerData?: ProviderData } {
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

function describeTimeout(model: string, timeoutMs: number): ModelError {
  return new ModelError(`${model} did not answer within ${timeoutMs} ms. Try again later, or raise timeoutMs.`, {
    details: { model, reason: 'timeout', retryable: true, attempts: 1 },
  });
}

type Warning = Awaited<ReturnType<LanguageModelV3['doGenerate']>>['warnings'][number];

/** A model of any version that hands its warnings to us. The AI SDK would print them, and a library does not print. */
function quietLanguageModel(
  model: LanguageModel,
  toolChoice: ModelRequest['toolChoice'],
  onWarning: (warning: Warning) => void,
): LanguageModelV3 {
  const inner = model as LanguageModelV3;
  // Told to the AI SDK it would make an error of a reply that calls no tool.
  const withChoice = (call: Parameters<LanguageModelV3['doGenerate']>[0]) =>
    toolChoice === undefined || !call.tools ? call : { ...call, toolChoice: { type: toolChoice } };
  return {
    // Version 4 has the calls and replies of version 3 as far as they are touched in here, but other files in prompts.
    specificationVersion: (model.specificationVersion === 'v4' ? 'v4' : 'v3') as 'v3',
    provider: model.provider,
    modelId: model.modelId,
    supportedUrls: model.supportedUrls,
    async doGenerate(call) {
      const { warnings, ...result } = await inner.doGenerate(withChoice(call));
      warnings.forEach(onWarning);
      return { ...result, warnings: [] };
    },
    async doStream(call) {
      const { stream, ...result } = await inner.doStream(withChoice(call));
      return { ...result, stream: stream.pipeThrough(watchEnd(onWarning)) };
    },
  };
}

/** Half a reply must not pass for one: a stream that broke off ends with an error. */
function watchEnd(onWarning: (warning: Warning) => void): TransformStream<StreamPart, StreamPart> {
  let isWhole = false;
  return new TransformStream({
    transform(part, stream) {
      if (part.type === 'finish') isWhole = !isBrokenOff(part);
      if (part.type === 'stream-start') part.warnings.forEach(onWarning);
      stream.enqueue(part.type === 'stream-start' ? { ...part, warnings: [] } : part);
    },
    flush(stream) {
      if (!isWhole) stream.enqueue({ type: 'error', error: brokenOff() });
    },
  });
}

/** Providers make up an end if the connection gave none: no reason of the server's, no count of tokens. */
function isBrokenOff({ finishReason, usage }: Extract<StreamPart, { readonly type: 'finish' }>): boolean {
  return (
    finishReason.unified === 'other' &&
    finishReason.raw === undefined &&
    usage.outputTokens.total === undefined &&
    usage.inputTokens.total === undefined
  );
}

function brokenOff(): ModelError {
  return new ModelError('The stream of the model ended before the reply did. Ask again.', {
    details: { reason: 'connection', retryable: true },
  });
}

function describeWarning(warning: Warning): string {
  if ('message' in warning) return warning.message;
  const what = `The model does not support ${warning.feature}.`;
  return warning.details === undefined ? what : `${what} ${warning.details}`;
}
