import { type Digest, digestText } from '../tree/chunk.ts';
import type { JsonValue } from '../value/json.ts';
import type { CheckpointId, SessionId } from './id.ts';

/** Everything a checkpoint records but its state, in the form that its digest covers. */
export type CheckpointHeader = {
  readonly id: CheckpointId;
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly parentId?: CheckpointId;
  /** The parent's digest: what makes history a chain. */
  readonly parentDigest?: Digest;
  /** The state can only be read whole together with its parent's, and so on up to one that does not need its own. */
  readonly needsParent?: true;
  readonly sequence: number;
  readonly type: string;
  readonly trigger?: string;
  readonly agentId?: string;
  readonly agentType?: string;
  readonly userId?: string;
  readonly status?: string;
  readonly timestampMs: number;
  readonly name?: string;
  readonly note?: string;
  readonly author?: string;
  readonly reason?: string;
  readonly metadata?: { readonly [key: string]: JsonValue };
  readonly collectedFields?: JsonValue;
  readonly requiredFields?: JsonValue;
  readonly contextSummary?: string;
  readonly fingerprint?: JsonValue;
  readonly schemaVersion?: number;
  readonly idempotencyKey?: string;
  /** How many effects of the branch the state may hold; those after it are not part of it yet. */
  readonly effectCount?: number;
  /** Effects before that which were still running, not asked for yet, or failed: a resume reads them, too. */
  readonly effectsInFlight?: readonly number[];
  readonly stateDigest: Digest;
  readonly stateBytes: number;
};

/** What stays of a deleted checkpoint: enough to walk the lineage and check the chain, and no content. */
export type Tombstone = {
  readonly id: CheckpointId;
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly parentId?: CheckpointId;
  readonly sequence: number;
  readonly timestampMs: number;
  readonly stateDigest: Digest;
  readonly deletedAtMs: number;
  readonly reason: string;
  /** How many deleted ancestors of the same branch were folded into this one; `parentId` is then the parent of the oldest. */
  readonly folded?: number;
  /** The oldest of them. */
  readonly foldedFrom?: CheckpointId;
};

/** The digest of a checkpoint: covers its whole header, and with the parent's digest in it all that came before. */
export function digestCheckpoint(body: string): Digest {
  return digestText(body);
}
