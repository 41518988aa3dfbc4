export { type DriftAssessment, DriftDetector, type DriftSnapshot } from './drift-detector.ts';
export type { DriftOptions } from './drift-options.ts';
export type { DriftEvent } from './step/drift-event.ts';
export type { DriftJudge } from './step/judge.ts';
export type { DriftEvidence, DriftKind } from './step/signal.ts';
