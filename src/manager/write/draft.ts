import { create, current, isDraft, isDraftable } from 'mutative';
import { InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { describeValue } from '../../core/options.ts';
import { takeReturned } from '../engine/returned-state.ts';

/** What the library that makes drafts says of changes it cannot follow. */
const REFUSED_BY_DRAFTS = /^Only supports setting array indices|^Cannot call '\w+\(\)' on drafts/;

/** Why an update was not made. */
export const SAVED_INSIDE =
  'The function of update() saved the session itself; this update would take that back, so it was not made. Save before or after update(), not inside.';
export const BASE_FAILED = 'The update before this one was not saved, and this one builds on it. Call update() again.';

/** A frozen state that is what a function made of a draft of another one; what did not change is shared. */
export function changeDraft(state: unknown, recipe: (draft: never) => unknown): unknown {
  if (!isDraftable(state))
    throw new InvalidInputError(
      `update() changes a state made of objects, lists, Maps and Sets; found ${describeValue(state)}. Pass initial to session(), or use save(state).`,
    );
  try {
    return freezeState(draw(state as object, recipe));
  } catch (error) {
    throw explainDraft(error, 'update()');
  }
}

/** The refusal of a change that a draft cannot hold, or whose result could not be saved; other errors stay. */
export function explainDraft(error: unknown, name: string): unknown {
  if (error instanceof Error && REFUSED_BY_DRAFTS.test(error.message))
    return new InvalidInputError(`${name} cannot make this change: ${error.message} Change plain properties.`, {
      cause: error,
    });
  if (!(error instanceof RangeError && error.message.includes('call stack'))) return error;
  return new InvalidInputError(
    `What ${name} made cannot be saved: it contains itself (a cycle), or is nested too deeply. Nothing was changed. Break the cycle, or flatten it.`,
    { cause: error },
  );
}

function draw(state: object, recipe: (draft: never) => unknown): unknown {
  let isTaken = false;
  const changed: unknown = create(state, (draft) => {
    const returned = recipe(draft as never);
    if (isDraft(returned)) return undefined;
    const isChanged = (): boolean => current(draft) !== state;
    const taken = takeReturned(returned, { state, isChanged, name: 'The function of update()' });
    isTaken = taken !== undefined;
    return (isTaken ? { taken, draft } : undefined) as undefined; // create() warns on the console unless it finds a draft
  });
  return isTaken ? (changed as { readonly taken: unknown }).taken : changed;
}
