import { setQuery } from '../frame/place.ts';
import type { Look } from './look.ts';

/** Begins to look for the first bad step of the branch: its root is taken as good, its tip as bad, and the middle is shown. */
export function beginBisect({ view: { timeline }, path: { steps } }: Pick<Look, 'view' | 'path'>): void {
  const idAt = (step: number) => timeline.ids[steps[step] ?? -1];
  const last = steps.length - 1;
  if (last > 1) setQuery({ good: idAt(0), bad: idAt(last), at: idAt(last >> 1) }, { replace: true });
}
