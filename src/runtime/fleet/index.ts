export type { OrchestratorOptions } from '../orchestrator/orchestrator.ts';
export { Orchestrator } from '../orchestrator/orchestrator.ts';
export type { GivenAnswer, RequestPlace as FleetPlace } from '../run/request-answers.ts';
export { Fleet } from './fleet.ts';
export { FleetAnswers } from './fleet-answers.ts';
export type { FleetEnd, FleetEndReason } from './fleet-end.ts';
export type { FleetStop, FleetTrigger } from './fleet-loop.ts';
export type { FleetLimits, FleetOptions } from './fleet-options.ts';
export { fleetOptionsFrom } from './fleet-options.ts';
export type { FleetAnswer, FleetQuestion, FleetRequest } from './fleet-request.ts';
export type {
  ContinueFleetOptions,
  ContinueFleetResult,
  RestoredFleet,
  RestoreFleetOptions,
} from './fleet-restorer.ts';
export { FleetRestorer } from './fleet-restorer.ts';
export type { FleetRunOptions, FleetRunResult } from './fleet-run.ts';
export type { FleetRunnerOptions, ResumeFleetOptions } from './fleet-runner.ts';
export { FleetRunner } from './fleet-runner.ts';
export type { FleetPhase, FleetRecord, FleetSettings, FleetState, TaskLedger } from './fleet-state.ts';
export type { ToolCallEvent } from './gated-effects.ts';
export type { OperationPolicy } from './operation-policy.ts';
export type { LedgerEntry, ParsedLedger, ProgressLedger } from './progress-ledger.ts';
export { parseProgressLedger } from './progress-ledger.ts';
export type { AskFleet } from './questions.ts';
export type { SupervisedFleetResult, SuperviseFleetOptions } from './supervise-fleet.ts';
export { superviseFleet } from './supervise-fleet.ts';
