import type { StateChange } from './state-changes.ts';

/** What is recorded of a step: its result, and what it changed in the state, which nobody does again when the step is not run again. */
export type StepRecord<Result> = { readonly result: Result; readonly changes: readonly StateChange[] };

/** No result of an agent is taken for a record: one that has this key is put into a record of its own. */
const CHANGES = 'savestate:changes';

/** What to record; of a step that changed nothing just its result. */
export function formatStepRecord({ result, changes }: StepRecord<unknown>): unknown {
  return changes.length === 0 && !isRecord(result) ? result : { [CHANGES]: changes, result };
}

/** Reads what was recorded. */
export function parseStepRecord<Result>(recorded: unknown): StepRecord<Result> {
  if (!isRecord(recorded)) return { result: recorded as Result, changes: [] };
  const { [CHANGES]: changes, result } = recorded as { [CHANGES]: readonly StateChange[]; result: Result };
  return { result, changes };
}

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, CHANGES);
}
