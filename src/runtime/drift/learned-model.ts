import { EMPTY_SUMS, featuresOf, type RunFeatures } from './run-features.ts';

/** A logistic model over the features of a run: plain numbers that anyone can read, check and replace. */
export type DriftModel = {
  readonly bias: number;
  readonly weights: Readonly<Record<keyof RunFeatures, number>>;
};

/** How likely a run with these features gets nowhere, 0 to 1, by a model's weights. */
export function modelProbability(model: DriftModel, features: RunFeatures): number {
  let sum = model.bias;
  for (const [name, weight] of Object.entries(model.weights)) sum += weight * features[name as keyof RunFeatures];
  return 1 / (1 + Math.exp(-sum));
}

const FEATURE_NAMES = Object.keys(featuresOf(EMPTY_SUMS));

/** Whether a value holds a bias and a weight for every feature, and nothing else. */
export function isDriftModel(value: unknown): value is DriftModel {
  const { bias, weights } = (value ?? {}) as Partial<DriftModel>;
  if (!Number.isFinite(bias) || typeof weights !== 'object' || weights === null) return false;
  const entries = Object.entries(weights);
  return (
    entries.length === FEATURE_NAMES.length &&
    entries.every(([name, weight]) => FEATURE_NAMES.includes(name) && Number.isFinite(weight))
  );
}
