import type { FindChunk } from '../../core/codec/decode.ts';
import type { EncodedState } from '../../core/codec/state-codec.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { Engine } from './engine.ts';
import type { Migrated } from './migrations.ts';
import type { StoredCheckpoint } from './repository.ts';
import { OWN_TYPES } from './save-options.ts';

/** A state as it is today, and what the next save needs to know of it (absent if a migration changed it). */
export type LoadedState = {
  readonly state: unknown;
  readonly encoded: EncodedState | undefined;
  readonly migratedThrough: readonly number[];
};

/** Loads the state of a checkpoint, checks it, and brings it to the current schema version. */
export async function loadState(engine: Engine, stored: StoredCheckpoint): Promise<LoadedState> {
  const { state, encoded } = await decode(engine, stored, (find) => engine.codec.decodeForEditing(stored.root, find));
  const migrated = migrate(engine, stored, state);
  const isCurrent = migrated.through.length === 0;
  return { state: migrated.state, encoded: isCurrent ? encoded : undefined, migratedThrough: migrated.through };
}

/** The same for callers that only want to look. */
export async function readState(engine: Engine, stored: StoredCheckpoint): Promise<unknown> {
  const state = await decode(engine, stored, (find) => engine.codec.decode(stored.root, find));
  return migrate(engine, stored, state).state;
}

/** The caller's migrations are for the caller's states. */
function migrate({ migrations }: Engine, { checkpoint }: StoredCheckpoint, state: unknown): Migrated {
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
