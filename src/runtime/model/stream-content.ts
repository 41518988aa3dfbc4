import type { LanguageModel } from 'ai';
import { ModelError } from '../../core/errors.ts';

/** A language model as the AI SDK declares it, of the version that is worked with in here. */
export type LanguageModelV3 = Extract<Exclude<LanguageModel, string>, { readonly specificationVersion: 'v3' }>;

/** What a language model returns at once. */
export type LanguageModelResult = Awaited<ReturnType<LanguageModelV3['doGenerate']>>;

type LanguageModelContent = LanguageModelResult['content'][number];
type StreamOf<Model extends LanguageModelV3> = Awaited<ReturnType<Model['doStream']>>['stream'];
/** One part of what a language model returns bit by bit. */
export type StreamPart = StreamOf<LanguageModelV3> extends ReadableStream<infer Part> ? Part : never;
type Finish = Pick<LanguageModelResult, 'finishReason' | 'usage' | 'providerMetadata'>;
type Growing = Extract<LanguageModelContent, { type: 'text' | 'reasoning' }>;

const WHOLE_TYPES = new Set(['tool-call', 'tool-result', 'tool-approval-request', 'file', 'source']);

/** Puts a streamed reply together, part by part, into what the model would have answered at once. */
export class StreamContent {
  readonly #content: LanguageModelContent[] = [];
  readonly #open = new Map<string, Growing>();
  readonly #onText: (delta: string) => void;
  #warnings: LanguageModelResult['warnings'] = [];
  #response: LanguageModelResult['response'] = {};
  #finish: Finish | undefined;

  constructor(onText: (delta: string) => void) {
    this.#onText = onText;
  }

  /** Takes the next part. Throws what the stream says went wrong. */
  add(part: StreamPart): void {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#begin(part);
        return;
      case 'text-delta':
      case 'reasoning-delta':
        this.#grow(part);
        return;
      case 'text-end':
      case 'reasoning-end':
        this.#annotate(part);
        return;
      default:
        if (isWhole(part)) this.#content.push(part);
        else this.#note(part);
    }
  }

  #note(part: StreamPart): void {
    switch (part.type) {
      case 'stream-start':
        this.#warnings = part.warnings;
        return;
      case 'response-metadata': {
        const { type: _, ...response } = part;
        this.#response = response;
        return;
      }
      case 'finish':
        this.#finish = part;
        return;
      case 'error':
        throw part.error;
      default: // pieces of tool input, which come again as a whole, and raw chunks
    }
  }

  /** The whole reply. Throws if the stream broke off: half a reply must not pass for one. */
  finish(): LanguageModelResult {
    const finish = this.#finish;
    if (finish === undefined || isBrokenOff(finish))
      throw new ModelError('The stream of the model ended before the reply did. Ask again.', {
        details: { reason: 'connection', retryable: true },
      });
    const { finishReason, usage, providerMetadata } = finish;
    return {
      content: this.#content,
      warnings: this.#warnings,
      response: this.#response ?? {},
      finishReason,
      usage,
      ...(providerMetadata !== undefined && { providerMetadata }),
    };
  }

  #begin({ type, id, providerMetadata }: Extract<StreamPart, { type: `${'text' | 'reasoning'}-start` }>): void {
    const part: Growing = {
      type: type === 'text-start' ? 'text' : 'reasoning',
      text: '',
      ...(providerMetadata !== undefined && { providerMetadata }),
    };
    this.#content.push(part);
    this.#open.set(`${part.type} ${id}`, part);
  }

  #grow(delta: Extract<StreamPart, { type: `${'text' | 'reasoning'}-delta` }>): void {
    const part = this.#annotate(delta);
    if (part !== undefined) part.text += delta.delta;
    if (delta.type === 'text-delta') this.#onText(delta.delta);
  }

  /** What a provider says of a part later on replaces what it said before, as in the AI SDK. */
  #annotate(event: Extract<StreamPart, { type: `${'text' | 'reasoning'}-${'delta' | 'end'}` }>): Growing | undefined {
    const part = this.#open.get(`${event.type.slice(0, event.type.indexOf('-'))} ${event.id}`);
    if (part !== undefined && event.providerMetadata !== undefined) part.providerMetadata = event.providerMetadata;
    return part;
  }
}

/** What comes in one piece. */
function isWhole(part: StreamPart): part is StreamPart & LanguageModelContent {
  return WHOLE_TYPES.has(part.type);
}

/** Providers make up an end if the connection gave none: no reason of the server's, no count of tokens. */
function isBrokenOff({ finishReason, usage }: Finish): boolean {
  return (
    finishReason.unified === 'other' &&
    finishReason.raw === undefined &&
    usage.outputTokens.total === undefined &&
    usage.inputTokens.total === undefined
  );
}
