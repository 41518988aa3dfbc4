import { useMemo, useState } from 'react';
import { type Diff, listChanges } from './changes.ts';

/** The changes of a diff as the address asks for them, and which of them is looked at. */
export function useChanges(diff: Diff, query: URLSearchParams) {
  const [at, setAt] = useState(-1);
  const all = useMemo(() => listChanges(diff), [diff]);
  const told = all.filter(({ isFolded }) => !isFolded);
  const showsAll = query.has('all') || told.length === 0;
  return {
    changes: showsAll ? all : told,
    hiddenCount: all.length - told.length,
    showsAll,
    isInline: query.has('inline'),
    at,
    onGo: setAt,
  };
}
