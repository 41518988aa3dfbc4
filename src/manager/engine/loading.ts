import type { FindChunk } from '../../core/codec/decode.ts';
import type { EncodedState } from '../../core/codec/state-codec.ts';
import { hasErrorCode, InvalidInputError, messageOf, UnsupportedError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
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
  const isOwn = OWN_TYPES.has(checkpoint.type) || isOwnState(state);
  return isOwn ? { state, through: [] } : migrations.migrate(state, checkpoint);
}

/** What only states have that this package makes, each kind with a version of its own: what the caller's version says is not about them. */
const OWN_FORMS: readonly { readonly [field: string]: (value: unknown) => boolean }[] = [
  { kind: (kind) => kind === 'group_chat', formatVersion: Number.isInteger, chat: isRecord, agents: isRecord },
  { kind: (kind) => kind === 'fleet', formatVersion: Number.isInteger, fleet: isRecord, agents: isRecord },
  { kind: (kind) => kind === 'workflow_run', fingerprint: isRecord, requests: isRecord },
  { loop: (loop) => isRecord(loop) && 'turn' in loop, mailbox: isRecord, context: isRecord, memory: isRecord },
  { adapter: (adapter) => adapter === 'ai-sdk', version: Number.isInteger, messages: Array.isArray },
  { transcript: (kind) => typeof kind === 'string', items: Array.isArray, bodies: Array.isArray },
  { channel_values: isRecord, channel_versions: isRecord },
];

function isOwnState(state: unknown): boolean {
  if (!isRecord(state)) return false;
  return OWN_FORMS.some((form) => Object.entries(form).every(([field, fits]) => fits(state[field])));
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

  /** Runs the migrations that the state of a checkpoint needs; also returns the versions it went through. */
  migrate(state: unknown, checkpoint: Checkpoint): Migrated {
    const { id, sessionId, schemaVersion: from = 0 } = checkpoint;
    if (this.version === undefined || from === this.version) return { state, through: [] };
    if (from > this.version) {
      throw new UnsupportedError(
        `The state of checkpoint ${id} of session "${sessionId}" was saved with schemaVersion ${from}, and this program knows versions up to ${this.version}. Update the program.`,
        { details: { checkpointId: id, sessionId, stored: from, known: this.version } },
      );
    }
    let current = state;
    for (let version = from; version < this.version; version++) current = this.#run(version, current, checkpoint);
    const through = Array.from({ length: this.version - from + 1 }, (_, at) => from + at);
    return { state: current, through };
  }

  #run(from: number, state: unknown, { id, sessionId }: Checkpoint): unknown {
    const step = this.#steps.get(from);
    const details = { checkpointId: id, sessionId, from };
    if (step === undefined) {
      throw new UnsupportedError(
        `There is no migration from schemaVersion ${from} to ${from + 1}, which checkpoint ${id} of session "${sessionId}" needs. Add it to migrations.`,
        { details },
      );
    }
    try {
      return takeMigrated(step.migrate(state)) ?? state;
    } catch (cause) {
      throw new UnsupportedError(
        `The migration from schemaVersion ${from} failed on the state of checkpoint ${id} of session "${sessionId}": ${messageOf(cause)}`,
        { details, cause },
      );
    }
  }
}

function takeMigrated(returned: unknown): unknown {
  if (!(returned instanceof Promise)) return returned;
  returned.catch(() => undefined); // whatever comes of it is too late
  throw new InvalidInputError('migrate must not be async: a state is brought up to date while it is read.');
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
