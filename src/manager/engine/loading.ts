import type { FindChunk } from '../../core/codec/decode.ts';
import type { EncodedState } from '../../core/codec/state-codec.ts';
import { hasErrorCode, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { visitLeftOut } from '../../core/secret/left-out.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { Engine } from './engine.ts';
import type { StoredCheckpoint } from './repository.ts';
import { OWN_TYPES } from './save-options.ts';

/** A state as it is today, and what the next save needs to know of it (absent if a migration changed it). */
export type LoadedState = {
  readonly state: unknown;
  readonly encoded: EncodedState | undefined;
  /** Whether a secret may have been left out: if not, nobody need look for one. */
  readonly mayHoldSecrets: boolean;
  readonly migratedThrough: readonly number[];
};

/** Loads the state of a checkpoint, checks it, and brings it to the current schema version. */
export async function loadState(engine: Engine, stored: StoredCheckpoint): Promise<LoadedState> {
  const read = await decode(engine, stored, (find) => engine.codec.decodeForEditing(stored.root, find));
  const { state, through } = migrate(engine, stored, read.state);
  const isCurrent = through.length === 0;
  return {
    state,
    encoded: isCurrent ? read.encoded : undefined,
    mayHoldSecrets: !isCurrent || read.mayHoldSecrets,
    migratedThrough: through,
  };
}

/** The same for callers that only want to look. */
export async function readState(engine: Engine, stored: StoredCheckpoint): Promise<unknown> {
  const state = await decode(engine, stored, (find) => engine.codec.decode(stored.root, find));
  return migrate(engine, stored, state).state;
}

/** Brings a state to the current schema version. The caller's migrations are for the caller's states. */
export function migrate({ migrations }: Engine, { checkpoint }: StoredCheckpoint, state: unknown): Migrated {
  return OWN_TYPES.has(checkpoint.type) ? { state, through: [] } : migrations.migrate(state, checkpoint.schemaVersion);
}

/** What is missing may have been deleted and collected while it was read: then the caller hears that, and not of damage. */
async function decode<Decoded>(
  { repository }: Engine,
  { checkpoint, root }: StoredCheckpoint,
  work: (find: FindChunk) => Decoded,
): Promise<Decoded> {
  try {
    return work(await repository.loadChunks(root));
  } catch (error) {
    if (hasErrorCode(error, 'CORRUPT')) await repository.open(checkpoint.id);
    throw error;
  }
}

/** Brings a state of version `from` to version `from + 1`. Gets a copy it may change; returns the new state, or nothing if it changed the copy. */
export type Migration = { readonly from: number; migrate(state: unknown): unknown };

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

  /** Runs the migrations a state needs; also returns the versions it went through. */
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
        { details: { from: version } },
      );
    }
    return step.migrate(state) ?? state;
  }
}

function checkSteps(version: number | undefined, migrations: readonly Migration[]): void {
  const seen = new Set<number>();
  for (const { from } of migrations) {
    if (version === undefined || from >= version || seen.has(from)) {
      throw new InvalidInputError(
        `Migrations need a schemaVersion, and one step for each older version at most; found a step from ${from}, with schemaVersion ${version}.`,
      );
    }
    seen.add(from);
  }
}

/** One thing that a restore could not put back. */
export type RestoreProblem = {
  readonly path: string;
  readonly problem: string;
  /** How the code differs: it lacks a field, has one besides, or otherwise. Absent if what was saved could not be put back. */
  readonly kind?: 'changed' | 'missing' | 'added';
};

/** What a restore did. `complete` only if every item was put back. */
export type RestoreReport = {
  readonly checkpointId: CheckpointId;
  readonly status: 'complete' | 'partial';
  readonly problems: readonly RestoreProblem[];
  /** Versions the state went through, such as `[1, 2, 3]`; empty if it was current. */
  readonly migratedThrough: readonly number[];
};

/** Puts a report together. */
export function createReport(
  checkpointId: CheckpointId,
  problems: readonly RestoreProblem[],
  migratedThrough: readonly number[],
): RestoreReport {
  return { checkpointId, status: problems.length === 0 ? 'complete' : 'partial', problems, migratedThrough };
}

/** Names every place of a state where a secret was left out, but those where what it was put into has one. */
export function findLeftOutSecrets(state: unknown, live?: unknown): RestoreProblem[] {
  const problems: RestoreProblem[] = [];
  visitLeftOut(state, {
    secret: (path, { name }) => {
      if (isSecretSet(path.reduce(childOf, live))) return;
      problems.push({ path: formatPath(path), problem: `The secret "${name}" was not stored; set it again.` });
    },
  });
  return problems;
}

/** Whether a value can stand for a secret. */
export function isSecretSet(live: unknown): boolean {
  return live !== undefined && live !== null && live !== '' && !(live instanceof SecretRef);
}

function childOf(live: unknown, step: PathStep): unknown {
  if (live instanceof Map) return [...live].find(([key]) => `<key ${String(key)}>` === step)?.[1];
  return typeof live === 'object' && live !== null ? Reflect.get(live, step) : undefined;
}
