import { InvalidInputError } from '../../core/errors.ts';
import { toOutput } from '../../view/checkpoint-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { createPathFilter } from '../../view/path-filter.ts';
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
  const isWanted = createPathFilter(query.path);
  const cut = query.whole === true ? whole : cutLarge;
  const added = found.added.filter(({ path }) => isWanted(path));
  const removed = found.removed.filter(({ path }) => isWanted(path));
  const modified = found.modified.filter(({ path }) => isWanted(path));
  const moved = found.moved.filter(({ path }) => isWanted(path));
  const total = { added: added.length, removed: removed.length, modified: modified.length, moved: moved.length };
  const { isFolded } = viewOf(await states.load(after.id));
  const changed = [...added, ...removed, ...modified].filter((change) =>
    isFolded(change.path, 'newValue' in change ? change.newValue : undefined),
  );
  return {
    before: toOutput(found.before),
    after: toOutput(found.after),
    hasChanges: Object.values(total).some((count) => count > 0),
    counts: query.path === undefined ? found.counts : { total, fields: {} },
    added: added.map((change) => cut(change)),
    removed: removed.map((change) => cut(change)),
    modified: modified.map((change) => cut(change)),
    moved,
    folded: changed.map(({ path }) => path),
    ...(query.patch === true && { patch: found.patch.map((operation) => toJsonForm(operation)) }),
  };
}

function whole<Change extends object>(change: Change): Change {
  return Object.fromEntries(
    Object.entries(change).map(([field, value]) => [field, toJsonForm(value) ?? null]),
  ) as Change;
}

/** The beginnings of values that are large, as text. */
function cutLarge<Change extends object>(change: Change): Change & { readonly isCut?: boolean } {
  let isCut = false;
  const fields = Object.entries(whole(change)).map(([field, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (field === 'path' || text.length <= MAX_VALUE_CHARS) return [field, value];
    isCut = true;
    return [field, text.slice(0, MAX_VALUE_CHARS)];
  });
  const shown = Object.fromEntries(fields) as Change;
  return isCut ? { ...shown, isCut } : shown;
}
