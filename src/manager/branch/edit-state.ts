import type { EncodedState } from '../../core/codec/state-codec.ts';
import type { JsonPatchOperation } from '../../core/diff/index.ts';
import type { Engine } from '../engine/engine.ts';
import { loadState, readState } from '../engine/loading.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import { takeReturned } from '../engine/returned-state.ts';
import { type CarriedEdit, carryEdit } from './message-copies.ts';

/** Changes a copy of a state: a JSON Patch, or a function that changes its argument or returns a new state. */
export type StateEdit<State = unknown> =
  | readonly JsonPatchOperation[]
  | ((state: State) => State | undefined)
  | ((state: State) => void);

/** What is to be changed, by whom, and why. */
export type EditRequest = {
  readonly edit: StateEdit<never>;
  readonly author?: string | undefined;
  readonly reason?: string | undefined;
};

/** The state of a checkpoint as an edit makes it, with every agent's copy of what was edited; nothing is stored. */
export async function editState(
  engine: Engine,
  origin: StoredCheckpoint,
  { edit, ...editor }: EditRequest,
): Promise<CarriedEdit & { readonly before: EncodedState | undefined }> {
  const { state, encoded: before } = await loadState(engine, origin);
  const { codec } = engine;
  const { digest } = (before ?? codec.encode(state)).root; // one that was migrated is not stored as it is now
  const isChanged = (): boolean => codec.encode(state, before).root.digest !== digest;
  const edited =
    typeof edit === 'function'
      ? (takeReturned(edit(state as never), { state, isChanged, name: 'edit' }) ?? state)
      : (await import('../../core/diff/index.ts')).applyPatch(state, edit);
  return { ...carryEdit(await readState(engine, origin), edited, editor), before };
}
