import type { DriftModel } from './learned-model.ts';

/**
 * Weights learnt by `bench/drift/train.mjs` from 102 labelled runs of web, coding and chat agents (34 of them unproductive).
 * Cross-validated by task: AUC 0.84, MCC 0.46 at a probability of one half. The alarms of the signals do better by themselves;
 * the model is for ranking runs by one number.
 */
export const DRIFT_MODEL: DriftModel = Object.freeze({
  bias: -2.021,
  weights: Object.freeze({
    redundancy: 10.064,
    equalCalls: 0,
    errors: 0,
    resultNovelty: -0.801,
    messageNovelty: 0,
    messageSimilarity: 4.361,
    length: 0,
  }),
});
