import type { DriftModel } from './learned-model.ts';

/**
 * Weights learnt by `bench/drift/train.mjs` from 102 labelled runs of web, coding and chat agents (34 of them unproductive).
 * Cross-validated by task: AUC 0.85, MCC 0.46 at a probability of one half. The alarms of the signals do better by themselves;
 * the model is for one number that stands for loops and stalls alike.
 */
export const DRIFT_MODEL: DriftModel = Object.freeze({
  bias: -1.945,
  weights: Object.freeze({
    redundancy: 6.325,
    insistence: 7.438,
    equalCalls: 0,
    errors: 0,
    resultNovelty: -0.877,
    messageNovelty: 0,
    messageSimilarity: 4.031,
    length: 0,
  }),
});
