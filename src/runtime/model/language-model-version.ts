import type { LanguageModelResult, LanguageModelV2 } from './sdk-model.ts';

type ResultV2 = Awaited<ReturnType<LanguageModelV2['doGenerate']>>;
type FinishReason = LanguageModelResult['finishReason'];
type Usage = LanguageModelResult['usage'];

/** A finish reason of either version, as the newer one has it. */
export function toFinishReason(reason: FinishReason | ResultV2['finishReason']): FinishReason {
  if (typeof reason !== 'string') return reason;
  return { unified: reason === 'unknown' ? 'other' : reason, raw: reason === 'unknown' ? undefined : reason };
}

/** A count of tokens of either version, as the newer one has it. */
export function toUsage(usage: Usage | ResultV2['usage']): Usage {
  if (typeof usage.inputTokens === 'object') return usage as Usage;
  const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens } = usage as ResultV2['usage'];
  return {
    inputTokens: { total: inputTokens, noCache: undefined, cacheRead: cachedInputTokens, cacheWrite: undefined },
    outputTokens: { total: outputTokens, text: undefined, reasoning: reasoningTokens },
  };
}

/** A warning of either version, in words. */
export function describeWarning(warning: object): string {
  const { message, feature, setting, tool, details } = warning as Readonly<Record<string, unknown>>;
  if (typeof message === 'string') return message;
  const name = feature ?? setting ?? (tool as { readonly name?: string } | undefined)?.name ?? 'a setting';
  const what = `The model does not support ${String(name)}.`;
  return typeof details === 'string' ? `${what} ${details}` : what;
}
