import type { useSession } from '../data/use-timeline.ts';
import type { DriftView } from './use-drift.ts';
import type { BranchPath } from './use-path.ts';
import type { Selection } from './use-selection.ts';

/** What the parts of the session screen share: what is there, and what of it is looked at. */
export type Look = {
  readonly sessionId: string;
  readonly view: ReturnType<typeof useSession>['view'];
  readonly selection: Selection;
  readonly session: ReturnType<typeof useSession>['session']['value'];
  readonly tags: ReadonlyMap<number, string>;
  readonly drift: DriftView;
  readonly path: BranchPath;
};
