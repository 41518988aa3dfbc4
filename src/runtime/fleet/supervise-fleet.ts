import { checkOptions, checkValue, filledString, having } from '../../core/options.ts';
import { SUPERVISE, type Supervised, type SuperviseOptions, supervise } from '../run/supervise.ts';
import type { FleetRunResult } from './fleet-run.ts';
import type { FleetRunner } from './fleet-runner.ts';

/** How a fleet is kept going. */
export type SuperviseFleetOptions = SuperviseOptions & { readonly task: string };

/** What came of a supervised fleet. */
export type SupervisedFleetResult = Supervised<FleetRunResult>;

/** Lets a fleet work, and resumes it from its last checkpoint when it fails, as often as the settings allow. */
export async function superviseFleet(
  runner: FleetRunner,
  supervision: SuperviseFleetOptions,
): Promise<SupervisedFleetResult> {
  checkValue(runner, having('runOrResume'), 'The runner of superviseFleet()');
  checkOptions(supervision, { ...SUPERVISE, task: { required: filledString } }, 'superviseFleet()');
  const { task, ...options } = supervision;
  return supervise<FleetRunResult>({
    ...options,
    ports: runner.checkpoints.engine.ports,
    attempt: () => runner.runOrResume({ task }),
    failureOf: (result) =>
      result.status === 'failed' ? { error: result.error, mark: String(result.error) } : undefined,
  });
}
