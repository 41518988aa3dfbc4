import type { SessionId } from '../../core/record/id.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import type { Repository } from './repository.ts';

/** The branch of a session that was never rewound or switched. */
export const DEFAULT_BRANCH = 'main';

const NAME = 'branch';

/** The branch that a session is opened on when none is named. */
export async function readCurrentBranch(repository: Repository, sessionId: SessionId): Promise<string> {
  return (await repository.readRef(sessionId, 'current', NAME)) ?? DEFAULT_BRANCH;
}

/** The same among the refs of a session that were read already. */
export function findCurrentBranch(refs: readonly Ref[]): string {
  return refs.find(({ kind }) => kind === 'current')?.target ?? DEFAULT_BRANCH;
}

/** Makes a branch the current one. */
export function makeCurrent(branch: string): RefChange {
  return { kind: 'current', name: NAME, target: branch };
}
