export type { OrchestratorOptions } from '../orchestrator/orchestrator.ts';
export { Orchestrator } from '../orchestrator/orchestrator.ts';
export { Fleet } from './fleet.ts';
export type { FleetEnd } from './fleet-end.ts';
export type { FleetOptions } from './fleet-options.ts';
export { fleetOptionsFrom } from './fleet-options.ts';
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
export type { FleetAnswer, FleetRequest } from './fleet-state.ts';
export type { OperationPolicy } from './operation-policy.ts';
export type { SupervisedFleetResult, SuperviseFleetOptions } from './supervise-fleet.ts';
export { superviseFleet } from './supervise-fleet.ts';
