import { formatPointer } from '../path.ts';
import type { Change, StateDiff } from './change.ts';

/** An operation of JSON Patch (RFC 6902). Paths are JSON Pointers; values are any that a state may hold. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string };

/** Writes a diff as a JSON Patch: applied one after the other to the earlier state, the operations give the later one. */
export function toPatch({ changes }: StateDiff): JsonPatchOperation[] {
  return changes.map(toOperation);
}

function toOperation(change: Change): JsonPatchOperation {
  const path = formatPointer(change.path);
  switch (change.op) {
    case 'add':
    case 'replace':
      return { op: change.op, path, value: change.value };
    case 'remove':
      return { op: 'remove', path };
    case 'move':
      return { op: 'move', from: formatPointer(change.from), path };
  }
}
