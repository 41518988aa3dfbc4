import type { Checkpoint } from '../core/checkpoint.ts';
import type { Chunk } from '../core/chunk.ts';
import type { EncodedState } from '../core/state-codec.ts';
import type { ManagerContext } from './context.ts';

/** A state as it is today, and what the next save needs to know of it (absent if a migration changed it). */
export type LoadedState = {
  readonly state: unknown;
  readonly encoded: EncodedState | undefined;
  readonly migratedThrough: readonly number[];
};

/** Loads the state of a checkpoint, checks it, and brings it to the current schema version. */
export async function loadState(
  { repository, codec, migrations }: ManagerContext,
  { checkpoint, root }: { checkpoint: Checkpoint; root: Chunk },
): Promise<LoadedState> {
  const find = await repository.loadChunks(root);
  const { state, encoded } = codec.decodeForEditing(root, find);
  const migrated = migrations.migrate(state, checkpoint.schemaVersion);
  const isCurrent = migrated.through.length === 0;
  return { state: migrated.state, encoded: isCurrent ? encoded : undefined, migratedThrough: migrated.through };
}
