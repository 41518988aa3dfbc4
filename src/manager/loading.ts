import type { EncodedState } from '../core/state-codec.ts';
import type { ManagerContext } from './context.ts';
import type { StoredCheckpoint } from './repository.ts';

/** A state as it is today, and what the next save needs to know of it (absent if a migration changed it). */
export type LoadedState = {
  readonly state: unknown;
  readonly encoded: EncodedState | undefined;
  readonly migratedThrough: readonly number[];
};

/** Loads the state of a checkpoint, checks it, and brings it to the current schema version. */
export async function loadState(context: ManagerContext, stored: StoredCheckpoint): Promise<LoadedState> {
  const find = await context.repository.loadChunks(stored.root);
  const { state, encoded } = context.codec.decodeForEditing(stored.root, find);
  const migrated = context.migrations.migrate(state, stored.checkpoint.schemaVersion);
  const isCurrent = migrated.through.length === 0;
  return { state: migrated.state, encoded: isCurrent ? encoded : undefined, migratedThrough: migrated.through };
}

/** The same for callers that only want to look. */
export async function readState(context: ManagerContext, stored: StoredCheckpoint): Promise<unknown> {
  const find = await context.repository.loadChunks(stored.root);
  return context.migrations.migrate(context.codec.decode(stored.root, find), stored.checkpoint.schemaVersion).state;
}
