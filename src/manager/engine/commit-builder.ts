import type { EncodedState } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { Checkpoint, deepFreeze } from '../../core/record/checkpoint.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { NewCheckpoint } from '../../storage/contract.ts';
import type { Engine } from './engine.ts';
import type { DescribedHeader } from './save-options.ts';

/** Where a new checkpoint goes. */
export type Place = {
  /** Default: a new one. */
  readonly id?: CheckpointId;
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly parent: Checkpoint | undefined;
  /** Whether the state can only be read whole together with the parent's. Default: no. */
  readonly needsParent?: boolean;
  readonly effects: { readonly effectCount?: number; readonly effectsInFlight?: readonly number[] };
};

/** Makes the record of a new checkpoint: gives it its id, its place in the lineage, and the digest that seals it. */
export function buildCheckpoint(
  { ports, migrations }: Engine,
  place: Place,
  { described, encoded }: { described: DescribedHeader; encoded: EncodedState },
): { readonly checkpoint: Checkpoint; readonly record: NewCheckpoint } {
  const { parent, sessionId, branch, effects } = place;
  const header: CheckpointHeader = {
    id: place.id ?? ports.nextId(parent?.id),
    sessionId,
    branch,
    ...(parent !== undefined && { parentId: parent.id, parentDigest: parent.digest }),
    ...(parent !== undefined && place.needsParent === true && { needsParent: true }),
    sequence: (parent?.sequence ?? 0) + 1,
    ...described,
    timestampMs: ports.now(),
    ...(migrations.version !== undefined && { schemaVersion: migrations.version }),
    ...effects,
    stateDigest: encoded.root.digest,
    stateBytes: encoded.sizeBytes,
  };
  const body = JSON.stringify(header);
  const digest = digestCheckpoint(body);
  return {
    checkpoint: new Checkpoint(deepFreeze(header), digest),
    record: { header, body, digest, root: encoded.root },
  };
}

/** A key stands for one state: to return the checkpoint of another one would lose this one. */
export function keyTaken({ id, sessionId }: Checkpoint, idempotencyKey: string | undefined): InvalidInputError {
  return new InvalidInputError(
    `The idempotency key ${JSON.stringify(idempotencyKey)} was used in session "${sessionId}" for another state, checkpoint ${id}; nothing was saved. Repeat a save with the state it had, or give this one a key of its own.`,
    { details: { field: 'idempotencyKey', sessionId, id } },
  );
}
