export type { DriftAssessment } from './assessment.ts';
export { DriftDetector } from './drift-detector.ts';
export type { DriftSnapshot } from './drift-snapshot.ts';
export type { DriftEvent, DriftEventKind } from './step/drift-event.ts';
export { DEFAULT_DRIFT_OPTIONS, type DriftOptions, SIGNAL_NAMES, type SignalName } from './step/drift-options.ts';
export type { DriftJudge, JudgeQuestion, JudgeVerdict } from './step/judge.ts';
export type { DriftEvidence, DriftKind } from './step/signal.ts';
