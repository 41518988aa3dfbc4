export type { DriftAssessment } from './assessment.ts';
export { DriftDetector } from './drift-detector.ts';
export type { DriftSnapshot } from './drift-snapshot.ts';
export type { DriftEvent } from './step/drift-event.ts';
export type { DriftOptions } from './step/drift-options.ts';
export type { DriftJudge } from './step/judge.ts';
export type { DriftEvidence, DriftKind } from './step/signal.ts';
