import { checkOptions, type OptionChecks, wholeFrom } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { DifferenceReport } from '../run/differences.ts';
import { CONTINUATION, FLEET_RUN, RESTORE } from '../run/run-options.ts';
import {
  type BranchOptions,
  type CheckpointSource,
  type RestoreOptions,
  type RestorerParts,
  TeamRestorer,
} from '../run/team-restorer.ts';
import type { Fleet } from './fleet.ts';
import { FLEET, type FleetTypes } from './fleet-kind.ts';
import { type FleetRunOptions, type FleetRunResult, firstTrigger, holdFleet } from './fleet-run.ts';
import type { FleetSettings } from './fleet-state.ts';

/** How a fleet is put back. */
export type RestoreFleetOptions = RestoreOptions<FleetSettings>;

/** A fleet as it was at a checkpoint, with new agents. */
export type RestoredFleet = {
  readonly fleet: Fleet;
  readonly checkpoint: Checkpoint;
  readonly report: DifferenceReport;
};

/** How a fleet is continued. */
export type ContinueFleetOptions = RestoreFleetOptions &
  BranchOptions &
  FleetRunOptions & {
    /** Another request: it becomes a user turn of the restored conversation. */
    readonly prompt?: string;
    /** So many rounds from here; default: as many as the checkpoint left, and as a prompt all that the settings allow. */
    readonly rounds?: number;
    /** Changes the restored fleet before it goes on. */
    readonly prepare?: (fleet: Fleet) => void | Promise<void>;
  };

const CONTINUE: OptionChecks<ContinueFleetOptions> = {
  ...FLEET_RUN,
  ...CONTINUATION,
  rounds: wholeFrom(1),
};

/** What came of a continuation. */
export type ContinueFleetResult = FleetRunResult & { readonly originId: string; readonly report: DifferenceReport };

/** Rebuilds a fleet from a checkpoint, and continues from there as a new branch. */
export class FleetRestorer {
  readonly #restorer: TeamRestorer<FleetTypes>;

  constructor(parts: RestorerParts) {
    this.#restorer = new TeamRestorer(FLEET, parts);
  }

  /** Puts a fleet back without going on. Nothing is written. */
  async restore(source: CheckpointSource, options: RestoreFleetOptions = {}): Promise<RestoredFleet> {
    checkOptions(options, RESTORE, 'restore()');
    const opened = await this.#restorer.open(source);
    const { team, report } = await this.#restorer.rebuild(opened, options);
    return { fleet: team, report, checkpoint: opened.checkpoint };
  }

  /** Goes on from a checkpoint as a new branch; what came after it stays as it is. */
  async continue(source: CheckpointSource, options: ContinueFleetOptions = {}): Promise<ContinueFleetResult> {
    checkOptions(options, CONTINUE, 'continue()');
    const { manager } = this.#restorer;
    return this.#restorer.continue(source, {
      options,
      change: async (fleet) => {
        if (options.prompt !== undefined) fleet.addPrompt(options.prompt);
        if (options.rounds !== undefined) fleet.grantRounds(options.rounds);
      },
      hold: (fleet, session, { isChanged, metadata, facts, differences }) => {
        const first = firstTrigger(options) ?? (isChanged ? 'fleet_continued' : undefined);
        return holdFleet(fleet, { manager, session, first, facts, differences }, { ...options, metadata });
      },
    });
  }
}
