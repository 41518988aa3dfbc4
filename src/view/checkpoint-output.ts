import { withoutUndefined } from '../core/defined.ts';
import { addTo } from '../core/group-by.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../core/record/id.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../storage/contract.ts';
import { checkRef, isProtecting } from '../storage/ref.ts';
import { toJsonForm } from './json-form.ts';
import type { checkpoint, Shape } from './shapes.ts';

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
type Said = (typeof SAID)[number];

/** A checkpoint as commands and the server give it. */
export type CheckpointOutput = Shape<typeof checkpoint>;

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
        addTo(byId, target as CheckpointId, name);
      }
      return byId;
    }),
  );
  return { heads: heads ?? new Map(), tags: tags ?? new Map() };
}

/** Which of these a branch, a tag or a pin names, and by what: those cannot be deleted. */
export async function readProtecting(
  storage: Pick<ChunkStorage, 'readRefs'>,
  meant: readonly Checkpoint[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const sessionId of new Set(meant.map((each) => each.sessionId)))
    for (const { kind, name, target } of await storage.readRefs({ sessionId }))
      if (isProtecting(kind) && meant.some(({ id }) => id === target)) names.set(target, `${kind} "${name}"`);
  return names;
}

/** A checkpoint as JSON for programs. */
export function toOutput(checkpoint: Checkpoint, names: Names = NO_NAMES): CheckpointOutput {
  const { id, sessionId, branch, sequence, timestamp, type, stateBytes, metadata } = checkpoint;
  const place = { id, sessionId, branch, sequence, savedAt: timestamp.toISOString(), type };
  const said = Object.fromEntries(SAID.map((field) => [field, checkpoint[field]])) as Pick<Checkpoint, Said>;
  const form = metadata && (toJsonForm(metadata) as Record<string, unknown>);
  const more = { metadata: form, stateBytes, heads: names.heads.get(id), tags: names.tags.get(id) };
  return withoutUndefined({ ...place, ...said, ...more });
}
