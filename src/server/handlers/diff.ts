import { InvalidInputError } from '../../core/errors.ts';
import { toDiffOutput } from '../../view/diff-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { viewOf } from '../../view/state-view.ts';
import type { Call } from './call.ts';

/** Larger values are cut, unless all is asked for. */
const MAX_VALUE_CHARS = 20_000;

/** How one checkpoint differs from another. */
export async function diffOf({ manager, states, query }: Call<'GET /v1/diff'>) {
  const after = await manager.open(query.after);
  const before = query.before ?? after.parentId;
  if (before === undefined)
    throw new InvalidInputError(`Checkpoint ${after.id} has no parent to compare it with. Name the one before.`);
  const found = await manager.compare(before, after.id);
  const output = toDiffOutput(found, query.path);
  const { added, removed, modified } = output;
  const { isFolded } = viewOf(await states.load(after.id));
  const changed = [...added, ...removed, ...modified].filter((change) =>
    isFolded(change.path, 'newValue' in change ? change.newValue : undefined),
  );
  return {
    ...output,
    ...(query.whole !== true && {
      added: added.map(cutLarge),
      removed: removed.map(cutLarge),
      modified: modified.map(cutLarge),
    }),
    folded: changed.map(({ path }) => path),
    ...(query.patch === true && { patch: found.patch.map((operation) => toJsonForm(operation)) }),
  };
}

/** The beginnings of values that are large, as text. */
function cutLarge<Change extends object>(change: Change): Change & { readonly isCut?: boolean } {
  let isCut = false;
  const fields = Object.entries(change).map(([field, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (field === 'path' || text.length <= MAX_VALUE_CHARS) return [field, value];
    isCut = true;
    return [field, text.slice(0, MAX_VALUE_CHARS)];
  });
  const shown = Object.fromEntries(fields) as Change;
  return isCut ? { ...shown, isCut } : shown;
}
