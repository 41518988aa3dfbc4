import type { ModelUsage } from './chat-model.ts';

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
