import { ConflictError, hasErrorCode, type SavestateError } from '../core/errors.ts';
import type { CheckpointId } from '../core/record/id.ts';
import type { Digest } from '../core/tree/chunk.ts';
import type { CheckpointRow, ChunkStorage, Commit, NewEffect, RefChange } from './contract.ts';

/** Refuses a commit that brings an id which a checkpoint or tombstone already has. */
export function taken(id: string): ConflictError {
  return new ConflictError(`Checkpoint ${id} exists already, and a checkpoint never changes. Save with a new id.`, {
    details: { id },
  });
}

/** Refuses a commit that requires a checkpoint which is not there (any more). */
export function gone(id: string): ConflictError {
  return new ConflictError(
    `Checkpoint ${id} is not there any more, so nothing can be saved on top of it. It was deleted, or lost in a failover. Open the session again.`,
    { details: { missing: id } },
  );
}

/** Refuses a commit that builds on a checkpoint which has the same id and another content now. */
export function rewritten(id: string): ConflictError {
  return new ConflictError(
    `Checkpoint ${id} was rewritten meanwhile, by redact or an import of its session, so nothing can be saved on top of what it was. Open the session again.`,
    { details: { missing: id } },
  );
}

/** Throws unless a checkpoint that a commit requires is there, and is what the commit builds on. */
export function checkRequirement(
  { checkpoint }: Commit,
  id: CheckpointId,
  found: Pick<CheckpointRow, 'isDeleted' | 'digest'> | undefined,
): void {
  if (found?.isDeleted !== false) throw gone(id);
  const { parentId, parentDigest } = checkpoint?.header ?? {};
  if (parentId === id && parentDigest !== undefined && parentDigest !== found.digest) throw rewritten(id);
}

/** Refuses a commit one of whose refs is not at the target it expects. `found` is its target now. */
export function moved(sessionId: string, change: RefChange, found: string | undefined): ConflictError {
  const { kind, name, expect } = change;
  return new ConflictError(describeMove(change, found), {
    details: { sessionId, kind, name, expected: expect, found: found ?? null },
  });
}

/** Refuses a commit one of whose effects would take the place of another row than it expects. */
export function replaced({ sessionId, branch, ordinal }: NewEffect): ConflictError {
  return new ConflictError(
    `Another writer recorded step ${ordinal} of branch "${branch}" meanwhile. Let one write at a time, with session.lease(), or give each a branch of its own.`,
    { details: { sessionId, branch, ordinal } },
  );
}

function describeMove({ kind, name, expect }: RefChange, found: string | undefined): string {
  const title = `${kind.charAt(0).toUpperCase()}${kind.slice(1)} "${name}"`;
  if (kind === 'log' && found !== undefined)
    return `Another writer recorded a step on branch "${name}" meanwhile: number ${found}, after ${expect ?? 'none'}. Let one write at a time, with session.lease(), or give each a branch of its own.`;
  if (expect === null)
    return `${title} exists already, at ${found}: another writer may have begun it. Read it and go on from there, or choose another name.`;
  if (found === undefined) return `${title} is gone; it was expected at ${expect}. Read the session again and retry.`;
  return `${title} moved from ${expect} to ${found} meanwhile. Read it again and retry, or save to a branch of its own.`;
}

/** Why a commit was refused: its id is in use, what it requires is gone, or a ref (that of a lease: `fenced`) or effect is not as expected. */
export type Refusal = 'taken' | 'gone' | 'moved' | 'fenced' | 'replaced';

/** Whether an error says that a commit was refused for this reason. */
export function isRefused(error: unknown, why: Refusal): error is SavestateError {
  return hasErrorCode(error, 'CONFLICT') && whyRefused(error as SavestateError) === why;
}

function whyRefused({ details }: SavestateError): Refusal | undefined {
  if (details.kind !== undefined) return details.kind === 'lease' ? 'fenced' : 'moved';
  if (details.missing !== undefined) return 'gone';
  if (details.ordinal !== undefined) return 'replaced';
  return details.id === undefined ? undefined : 'taken';
}

/** Commits, unless something is not as the commit expects; returns whether it did. */
export async function tryCommit(storage: Pick<ChunkStorage, 'commit'>, commit: Commit): Promise<boolean> {
  try {
    await storage.commit(commit);
    return true;
  } catch (error) {
    if (hasErrorCode(error, 'CONFLICT')) return false;
    throw error;
  }
}

/** Throws unless every ref and effect of a commit is as it expects: at this target, of this digest. */
export function checkExpectations(
  { sessionId, refs = [], effects = [] }: Commit,
  targetOf: (change: RefChange) => string | undefined,
  digestOf: (effect: NewEffect) => Digest | undefined,
): void {
  for (const change of refs) {
    const found = targetOf(change);
    if (!isExpected(change, found)) throw moved(sessionId, change, found);
  }
  for (const effect of effects)
    if (effect.expect !== undefined && !isExpected(effect, digestOf(effect))) throw replaced(effect);
}

function isExpected({ expect }: { readonly expect?: string | null }, found: string | undefined): boolean {
  return expect === undefined || expect === (found ?? null);
}
