export type { DriftAssessment } from './assessment.ts';
export { DriftDetector } from './drift-detector.ts';
export type { DriftEvent, DriftEventKind } from './drift-event.ts';
export { DEFAULT_DRIFT_OPTIONS, type DriftOptions, SIGNAL_NAMES, type SignalName } from './drift-options.ts';
export type { DriftSnapshot } from './drift-snapshot.ts';
export type { DriftJudge, JudgeQuestion, JudgeVerdict } from './judge.ts';
export type { DriftEvidence, DriftKind } from './signal.ts';
