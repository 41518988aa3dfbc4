import type { LanguageModel } from 'ai';

/** A language model as the AI SDK declares it, of the version that is worked with in here. */
export type LanguageModelV3 = Extract<Exclude<LanguageModel, string>, { readonly specificationVersion: 'v3' }>;

/** The older version of that interface. */
export type LanguageModelV2 = Extract<Exclude<LanguageModel, string>, { readonly specificationVersion: 'v2' }>;

/** What a language model is called with. */
export type LanguageModelCall = Parameters<LanguageModelV3['doGenerate']>[0];

/** What a language model answers at once. */
export type LanguageModelResult = Awaited<ReturnType<LanguageModelV3['doGenerate']>>;

/** One part of what it answers: text, reasoning, a tool call. */
export type LanguageModelContent = LanguageModelResult['content'][number];

type StreamOf<Model extends LanguageModelV2 | LanguageModelV3> = Awaited<ReturnType<Model['doStream']>>['stream'];

/** One part of what a language model answers bit by bit. */
export type StreamPart = StreamOf<LanguageModelV2 | LanguageModelV3> extends ReadableStream<infer Part> ? Part : never;
