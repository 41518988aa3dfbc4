export type { RunComparison, RunRef } from './compare-runs.ts';
export { compareRuns, formatRunComparison } from './compare-runs.ts';
export type { InterveneOptions, InterveneResult } from './intervene.ts';
export { intervene } from './intervene.ts';
export type { Intervention } from './intervention.ts';
export type { Judge, TrialOptions, TrialVerdict } from './trial.ts';
export { trial } from './trial.ts';
export type { TrialArm, TrialReport } from './trial-report.ts';
export { formatTrial } from './trial-report.ts';
