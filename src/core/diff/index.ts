export { applyPatch } from './apply-patch.ts';
export {
  type Change,
  type ChangeCounts,
  type CountedChanges,
  countChanges,
  type JsonPatchOperation,
  type StateDiff,
  toPatch,
} from './change.ts';
export type { LoadChunks } from './chunk-source.ts';
export { type DiffInput, diffStates } from './diff-states.ts';
export { diffText, type TextChange } from './diff-text.ts';
