import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';

/** Brings a state of version `from` to version `from + 1`. Gets a copy it may change; answers the new state, or nothing if it changed the copy. */
export type Migration = { readonly from: number; readonly migrate: (state: unknown) => unknown };

/** A state after its migrations, and the versions it went through. */
export type Migrated = { readonly state: unknown; readonly through: readonly number[] };

/** The versions of the caller's state. Old checkpoints stay as they are; what is restored is brought up to date. */
export class Migrations {
  readonly version: number | undefined;
  readonly #steps: ReadonlyMap<number, Migration>;

  constructor(version: number | undefined, migrations: readonly Migration[] = []) {
    this.version = version;
    this.#steps = new Map(migrations.map((migration) => [migration.from, migration]));
    checkSteps(version, migrations);
  }

  /** Runs the migrations a state needs; also answers the versions it went through. */
  migrate(state: unknown, stored: number | undefined): Migrated {
    if (this.version === undefined || stored === this.version) return { state, through: [] };
    const from = stored ?? 0;
    if (from > this.version) {
      throw new UnsupportedError(
        `The state was saved with schemaVersion ${from}, and this program knows versions up to ${this.version}. Update the program.`,
        { details: { stored: from, known: this.version } },
      );
    }
    let current = state;
    for (let version = from; version < this.version; version++) current = this.#run(version, current);
    const through = Array.from({ length: this.version - from + 1 }, (_, at) => from + at);
    return { state: current, through };
  }

  #run(version: number, state: unknown): unknown {
    const step = this.#steps.get(version);
    if (step === undefined) {
      throw new UnsupportedError(
        `There is no migration from schemaVersion ${version} to ${version + 1}. Add it to migrations.`,
        {
          details: { from: version },
        },
      );
    }
    return step.migrate(state) ?? state;
  }
}

function checkSteps(version: number | undefined, migrations: readonly Migration[]): void {
  if (version !== undefined && (!Number.isSafeInteger(version) || version < 0)) {
    throw new InvalidInputError(`schemaVersion must be a whole number from 0 on; found ${version}.`);
  }
  const seen = new Set<number>();
  for (const { from } of migrations) {
    if (version === undefined || !Number.isSafeInteger(from) || from < 0 || from >= version || seen.has(from)) {
      throw new InvalidInputError(
        `Migrations need a schemaVersion, and one step for each older version at most; found a step from ${from}, with schemaVersion ${version}.`,
      );
    }
    seen.add(from);
  }
}
