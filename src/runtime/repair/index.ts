export { compareRuns, formatRunComparison, type RunComparison, type RunRef } from './compare-runs.ts';
export { type InterveneOptions, type InterveneResult, intervene } from './intervene.ts';
export type { Intervention } from './intervention.ts';
export { type Judge, type TrialOptions, type TrialVerdict, trial } from './trial.ts';
export { formatTrial, type TrialArm, type TrialReport } from './trial-report.ts';
