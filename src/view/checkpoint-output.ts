import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../core/record/id.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import type { ChunkStorage, RefKind } from '../storage/contract.ts';
import { checkRef } from '../storage/ref.ts';
import { toJsonForm } from './json-form.ts';

/** What a checkpoint may say of itself. */
export const SAID = [
  'parentId',
  'trigger',
  'status',
  'name',
  'note',
  'author',
  'reason',
  'agentId',
  'agentType',
  'userId',
] as const;

/** A checkpoint as commands and the server give it. */
export type CheckpointOutput = Pick<Checkpoint, 'id' | 'sessionId' | 'branch' | 'sequence' | 'type' | 'stateBytes'> &
  Partial<Pick<Checkpoint, (typeof SAID)[number] | 'metadata'>> & {
    readonly savedAt: string;
    /** Branches whose head it is. */
    readonly heads?: readonly string[];
    readonly tags?: readonly string[];
  };

/** The branches and tags that point at checkpoints of a session. */
export type Names = {
  readonly heads: ReadonlyMap<CheckpointId, readonly string[]>;
  readonly tags: ReadonlyMap<CheckpointId, readonly string[]>;
};

export const NO_NAMES: Names = { heads: new Map(), tags: new Map() };

/** Reads the names of a session, once for a whole list. */
export async function readNames({ engine }: CheckpointManager, sessionId: SessionId): Promise<Names> {
  const [heads, tags] = await Promise.all(
    (['branch', 'tag'] as const).map(async (kind) => {
      const byId = new Map<CheckpointId, string[]>();
      for (const ref of await engine.storage.readRefs({ sessionId, kind })) {
        const { name, target } = checkRef(ref);
        byId.set(target as CheckpointId, [...(byId.get(target as CheckpointId) ?? []), name]);
      }
      return byId;
    }),
  );
  return { heads: heads ?? new Map(), tags: tags ?? new Map() };
}

const PROTECTING: ReadonlySet<RefKind> = new Set(['branch', 'tag', 'pin']);

/** Which of these a branch, a tag or a pin names, and by what: those cannot be deleted. */
export async function readProtecting(
  storage: Pick<ChunkStorage, 'readRefs'>,
  meant: readonly Checkpoint[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const sessionId of new Set(meant.map((each) => each.sessionId)))
    for (const { kind, name, target } of await storage.readRefs({ sessionId }))
      if (PROTECTING.has(kind) && meant.some(({ id }) => id === target)) names.set(target, `${kind} "${name}"`);
  return names;
}

/** A checkpoint as JSON for programs. */
export function toOutput(checkpoint: Checkpoint, names: Names = NO_NAMES): CheckpointOutput {
  const { id, sessionId, branch, sequence, timestamp, type, stateBytes, metadata } = checkpoint;
  const [heads, tags] = [names.heads.get(id), names.tags.get(id)];
  const said = SAID.flatMap((field) => (checkpoint[field] === undefined ? [] : [[field, checkpoint[field]]]));
  return {
    id,
    sessionId,
    branch,
    sequence,
    savedAt: timestamp.toISOString(),
    type,
    ...(Object.fromEntries(said) as Partial<CheckpointOutput>),
    ...(metadata !== undefined && { metadata: toJsonForm(metadata) as Record<string, unknown> }),
    stateBytes,
    ...(heads !== undefined && { heads: [...heads] }),
    ...(tags !== undefined && { tags: [...tags] }),
  };
}
