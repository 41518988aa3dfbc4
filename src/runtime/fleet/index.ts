export { Orchestrator, type OrchestratorOptions } from '../agent/auto-save.ts';
export type { OperationPolicy } from '../run/run-options.ts';
export { Fleet } from './fleet.ts';
export { type FleetOptions, fleetOptionsFrom } from './fleet-options.ts';
export type {
  ContinueFleetOptions,
  ContinueFleetResult,
  RestoredFleet,
  RestoreFleetOptions,
} from './fleet-restorer.ts';
export { FleetRestorer } from './fleet-restorer.ts';
export type { FleetRunOptions, FleetRunResult } from './fleet-run.ts';
export type {
  FleetRunnerOptions,
  ResumeFleetOptions,
  SupervisedFleetResult,
  SuperviseFleetOptions,
} from './fleet-runner.ts';
export { FleetRunner, superviseFleet } from './fleet-runner.ts';
export type { FleetAnswer, FleetEnd, FleetRequest } from './fleet-state.ts';
