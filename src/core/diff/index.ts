export { applyPatch } from './apply-patch.ts';
export type { Change, StateDiff } from './change.ts';
export type { LoadChunks } from './chunk-source.ts';
export { type ChangeCounts, type CountedChanges, countChanges } from './count-changes.ts';
export { type DiffInput, diffStates } from './diff-states.ts';
export { diffText, type TextChange } from './diff-text.ts';
export { type JsonPatchOperation, toPatch } from './json-patch.ts';
