import type { AskNow } from '../run/asking.ts';
import { deadlineOf } from '../run/request-answers.ts';
import { type Hold, holdTeam, type RunOptions, type RunResult } from '../run/team-run.ts';
import type { Fleet } from './fleet.ts';
import { FLEET, type FleetTypes } from './fleet-kind.ts';
import { type FleetCallbacks, FleetLoop, type FleetTrigger } from './fleet-loop.ts';
import type { FleetCallbackFlags, FleetRequest, TaskLedger } from './fleet-state.ts';
import type { ProgressLedger } from './progress-ledger.ts';

/** What a run may use besides its fleet. */
export type FleetRunOptions = RunOptions<Fleet> &
  FleetCallbacks & {
    /** Asks people at once. Without it, or without an answer, the run stops and waits. */
    readonly ask?: AskNow<FleetRequest>;
  };

/** What came of a run. */
export type FleetRunResult = RunResult<FleetTypes['end'], FleetRequest> & {
  readonly taskLedger: TaskLedger | null;
  readonly progressLedger: ProgressLedger | null;
  readonly rounds: number;
  readonly stalls: number;
  readonly resets: number;
  /** When it is worth resuming a fleet that waits, if nobody answers before. */
  readonly wakeAtMs?: number;
};

/** Where a fleet works. */
export type FleetHold = Omit<Hold<FleetTypes>, 'kind' | 'team' | 'script' | 'ask'>;

type Going = { readonly prompt?: string; readonly rounds?: number };

/** What the first checkpoint is about, if the fleet was changed before it goes on. */
export function firstTrigger({ prompt, rounds }: Going): FleetTrigger | undefined {
  if (prompt !== undefined) return 'resumed';
  return rounds === undefined ? undefined : 'fleet_continued';
}

/** Lets a fleet work in a session: every round is saved, every outside call recorded. */
export async function holdFleet(fleet: Fleet, hold: FleetHold, options: FleetRunOptions): Promise<FleetRunResult> {
  const { ask, ...given } = withoutUnwanted(options, fleet.record.settings.callbacks);
  const result = await holdTeam<FleetTypes>(
    { ...hold, kind: FLEET, team: fleet, ask, script: (world) => new FleetLoop(fleet, world, given) },
    given,
  );
  const { taskLedger, progressLedger, rounds, stalls, resets } = fleet.record;
  const request = result.status === 'waiting' ? result.request : undefined;
  const wakeAtMs = request && deadlineOf(request);
  const wake = wakeAtMs === undefined ? {} : { wakeAtMs };
  return { ...result, taskLedger, progressLedger, rounds, stalls, resets, ...wake };
}

/** What the settings of a fleet say that the caller is not told of is left out. */
function withoutUnwanted(options: FleetRunOptions, callbacks: FleetCallbackFlags): FleetRunOptions {
  const { onText, onProgressLedger, onToolCall, ...rest } = options;
  return {
    ...rest,
    ...(onText !== undefined && callbacks.streaming && { onText }),
    ...(onProgressLedger !== undefined && callbacks.progressLedger && { onProgressLedger }),
    ...(onToolCall !== undefined && callbacks.toolCalls && { onToolCall }),
  };
}
