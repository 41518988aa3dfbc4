import { digestText } from '../core/chunk.ts';
import { ConflictError, CorruptError } from '../core/errors.ts';
import type { Ref, RefChange } from './contract.ts';

type RefContent = Omit<Ref, 'check'>;

/** Sixteen hexadecimal characters that change if any part of the ref does. */
export function refCheck({ sessionId, kind, name, target }: RefContent): string {
  return digestText(JSON.stringify([sessionId, kind, name, target])).slice(0, 16);
}

/** Completes a ref with its check. */
export function createRef(content: RefContent): Ref {
  return { ...content, check: refCheck(content) };
}

/** Throws a CorruptError if the ref is not what was written. */
export function checkRef(ref: Ref): Ref {
  if (ref.check !== refCheck(ref)) {
    throw new CorruptError(`The ${ref.kind} "${ref.name}" of session "${ref.sessionId}" is damaged.`, {
      details: { sessionId: ref.sessionId, kind: ref.kind, name: ref.name },
    });
  }
  return ref;
}

/** Throws a ConflictError unless the ref is as the change expects. `found` is its target now. */
export function checkExpectation(change: RefChange, found: string | undefined, sessionId: string): void {
  if (change.expect === undefined || change.expect === (found ?? null)) return;
  throw new ConflictError(describeConflict(change, found), {
    details: { sessionId, kind: change.kind, name: change.name, expected: change.expect, found: found ?? null },
  });
}

function describeConflict({ kind, name, expect }: RefChange, found: string | undefined): string {
  const title = `${kind.charAt(0).toUpperCase()}${kind.slice(1)} "${name}"`;
  if (expect === null)
    return `${title} exists already, at ${found}. Choose another name, or read it and go on from there.`;
  if (found === undefined) return `${title} is gone; it was expected at ${expect}. Read the session again and retry.`;
  return `${title} moved from ${expect} to ${found} meanwhile. Read it again and retry, or save to a branch of its own.`;
}

/** Answers `readDue` for a storage that has no index for it: from all refs of kind `due`. */
export function selectDue(
  refs: readonly Ref[],
  { before, limit }: { readonly before: string; readonly limit: number },
): Ref[] {
  return refs
    .filter(({ kind, target }) => kind === 'due' && target < before)
    .sort((a, b) => (a.target < b.target ? -1 : 1))
    .slice(0, limit);
}
