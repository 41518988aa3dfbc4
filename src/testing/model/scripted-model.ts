import { setTimeout as wait } from 'node:timers/promises';
import { InvalidInputError, ModelError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, describeValue, isRecord, type OptionChecks } from '../../core/options.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import type {
  CallOptions,
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ToolCall,
} from '../../runtime/model/chat-model.ts';
import { costUsd, type ModelPrices } from '../../runtime/model/chat-model.ts';
import {
  callId,
  findAnswer,
  finishReasonOf,
  isFailure,
  type Script,
  type ScriptedFailure,
  type ScriptedReply,
  splitText,
  usageOf,
} from './scripted-answer.ts';

/** What a scripted model is called, and what it needs from outside. */
export type ScriptedModelOptions = {
  readonly id?: string;
  readonly prices?: ModelPrices;
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
};

const OPTIONS: OptionChecks<ScriptedModelOptions> = { id: is.filledString, prices: is.record, sleep: is.callback };

/** A model that answers from a script, and remembers what it was asked. */
export interface ScriptedModel extends ChatModel {
  /** The requests it got, in order; also those that failed. */
  readonly requests: readonly ModelRequest[];
  /** The idempotency keys that came with them. */
  readonly idempotencyKeys: readonly (string | undefined)[];
}

/**
 * Makes a model that answers from a list, one answer for each request, or from a function of the request. It answers the same in every
 * run. A list that has come to its end is an InvalidInputError.
 */
export function scriptedModel(script: Script<ModelRequest>, options: ScriptedModelOptions = {}): ScriptedModel {
  checkOptions(options, OPTIONS, 'scriptedModel()');
  return new Actor(script, options);
}

class Actor implements ScriptedModel {
  readonly id: string;
  readonly requests: ModelRequest[] = [];
  readonly idempotencyKeys: (string | undefined)[] = [];
  readonly #script: Script<ModelRequest>;
  readonly #options: ScriptedModelOptions;

  constructor(script: Script<ModelRequest>, options: ScriptedModelOptions) {
    this.id = options.id ?? 'scripted';
    this.#script = script;
    this.#options = options;
  }

  async reply(request: ModelRequest, call: CallOptions = {}): Promise<ModelReply> {
    call.signal?.throwIfAborted();
    const index = this.requests.length;
    this.requests.push({ ...request, messages: [...request.messages] });
    this.idempotencyKeys.push(call.idempotencyKey);
    const answer = await findAnswer(this.#script, request, index);
    if (!isRecord(answer))
      throw new InvalidInputError(
        `The script of ${this.id} has no answer for request ${index}: it is ${describeValue(answer)}. Give a text, or an object.`,
      );
    if (isFailure(answer)) return this.#fail(answer, request, call);
    return this.#answer({ answer, index }, request, call);
  }

  async #answer(
    { answer, index }: { answer: ScriptedReply; index: number },
    request: ModelRequest,
    call: CallOptions,
  ): Promise<ModelReply> {
    if (answer.delayMs !== undefined) await (this.#options.sleep ?? sleepFor)(answer.delayMs, call.signal);
    for (const chunk of call.onText === undefined ? [] : splitText(answer)) {
      call.signal?.throwIfAborted();
      call.onText?.(chunk);
    }
    const toolCalls = (answer.toolCalls ?? []).map((tool, at) =>
      readToolCall({ id: callId(tool, index, at), name: tool.name, input: tool.input }, request),
    );
    const { inputTokens, outputTokens } = usageOf(answer, request);
    const usage = { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
    const { prices } = this.#options;
    return {
      messages: toMessages(answer, toolCalls),
      text: textOf(answer),
      toolCalls,
      finishReason: finishReasonOf(answer).replaceAll('_', '-'),
      usage,
      ...(prices !== undefined && { costUsd: costUsd(usage, prices) }),
      model: this.id,
    };
  }

  async #fail(failure: ScriptedFailure, request: ModelRequest, call: CallOptions): Promise<never> {
    if ('hang' in failure) return this.#hang(request, call);
    if ('cut' in failure) {
      for (const chunk of splitText(failure)) call.onText?.(chunk);
      throw this.#failure('the connection failed.', { reason: 'connection', retryable: true });
    }
    if ('garbage' in failure)
      throw this.#failure('its reply cannot be read.', { reason: 'unreadable', retryable: true });
    const { status, message = 'refused by the script', retryAfterMs } = failure;
    throw this.#failure(`status ${status}: ${message}.`, {
      reason: 'status',
      retryable: status === 429 || status >= 500,
      status,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }

  /** Until the caller gives up, or the time that the request allows is over. */
  #hang({ settings }: ModelRequest, { signal }: CallOptions): Promise<never> {
    const { timeoutMs = Number.POSITIVE_INFINITY } = settings ?? {};
    const onTimeout = () => this.#failure(`not within ${timeoutMs} ms.`, { reason: 'timeout', retryable: true });
    return withDeadline({ signal, timeoutMs, onTimeout }, () => new Promise<never>(() => undefined));
  }

  #failure(what: string, details: object): ModelError {
    return new ModelError(`${this.id} did not answer: ${what}`, {
      details: { model: this.id, attempts: 1, ...details },
    });
  }
}

function textOf({ text, chunks = [] }: ScriptedReply): string {
  return text ?? chunks.join('');
}

/** Calls are judged as those of a real model are. */
function readToolCall(call: ToolCall, { tools = [] }: ModelRequest): ToolCall {
  const { input, isReadable } = readInput(call.input);
  if (!tools.some(({ name }) => name === call.name))
    return { ...call, input, problem: `There is no tool "${call.name}".` };
  if (isReadable) return { ...call, input };
  const problem = `The arguments for the tool "${call.name}" are not valid JSON. Call it again with a JSON object.`;
  return { ...call, input, problem };
}

function readInput(input: unknown): { input: unknown; isReadable: boolean } {
  if (typeof input !== 'string') return { input, isReadable: true };
  try {
    return { input: JSON.parse(input) as unknown, isReadable: true };
  } catch {
    return { input, isReadable: false };
  }
}

function toMessages(answer: ScriptedReply, toolCalls: readonly ToolCall[]): ModelMessage[] {
  const text = textOf(answer);
  const { reasoning } = answer;
  const content = [
    ...(reasoning === undefined ? [] : [toReasoningPart(reasoning)]),
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...toolCalls.map(({ id, name, input }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: name,
      input: typeof input === 'object' ? input : {}, // providers take objects only
    })),
  ];
  return content.length === 0 ? [] : [{ role: 'assistant', content }];
}

function toReasoningPart({ text, encrypted }: NonNullable<ScriptedReply['reasoning']>) {
  const part = { type: 'reasoning' as const, text };
  return encrypted === undefined ? part : { ...part, providerOptions: { scripted: { encrypted } } };
}

async function sleepFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await wait(ms, undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
    throw signal?.aborted ? signal.reason : error;
  });
}
