import type { LanguageModel as AnyLanguageModel } from 'ai';

/** A language model of the AI SDK, of either version of its interface that is in use. */
export type LanguageModel = Exclude<AnyLanguageModel, string>;

/** The newer version of that interface. */
export type LanguageModelV3 = Extract<LanguageModel, { readonly specificationVersion: 'v3' }>;

/** The older version of that interface. */
export type LanguageModelV2 = Extract<LanguageModel, { readonly specificationVersion: 'v2' }>;

/** What a language model is called with. */
export type LanguageModelCall = Parameters<LanguageModelV3['doGenerate']>[0];

/** What a language model answers at once. */
export type LanguageModelResult = Awaited<ReturnType<LanguageModelV3['doGenerate']>>;

/** One part of what it answers: text, reasoning, a tool call. */
export type LanguageModelContent = LanguageModelResult['content'][number];

type StreamOf<Model extends LanguageModel> = Awaited<ReturnType<Model['doStream']>>['stream'];

/** One part of what a language model answers bit by bit. */
export type StreamPart = StreamOf<LanguageModel> extends ReadableStream<infer Part> ? Part : never;
