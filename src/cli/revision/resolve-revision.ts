import { hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { isAnswerBranch } from '../../manager/revision/ref-name.ts';
import { resolveRevision as resolveIn } from '../../manager/revision/resolve-revision.ts';
import { readLive } from '../../manager/revision/rounds.ts';
import type { OpenStorage } from '../base/open-storage.ts';

/** Finds the checkpoint a revision names; `first-bad` is what the last bisect found. */
export async function resolveRevision(opened: OpenStorage, text: string): Promise<Checkpoint> {
  const place = {
    sessionId: await opened.findSession(),
    head: async () => opened.position ?? opened.head(),
    findName: async (name: string) => (name === 'first-bad' ? opened.readFirstBad() : undefined),
  };
  try {
    return await resolveIn(opened.manager.engine, place, text);
  } catch (error) {
    if (!hasErrorCode(error, 'NOT_FOUND') || !ADDRESS.test(text)) throw error;
    throw new NotFoundError(`"${text}" looks like a storage, and a revision is expected here. Use --storage ${text}`, {
      cause: error,
    });
  }
}

/** What people write for a storage and never for a checkpoint. */
const ADDRESS = /^[^:@]*\.(db|sqlite3?)$|^(sqlite|file|memory|postgres(ql)?|https?):/;

/** Reads `a..b`; either side may be left out and means the first checkpoint, or `@`. Undefined if it is no range. */
export function parseRange(text: string): { readonly from: string | undefined; readonly to: string } | undefined {
  const at = text.indexOf('..');
  if (at < 0) return undefined;
  const [from, to] = [text.slice(0, at), text.slice(at + 2)];
  if (to.startsWith('.')) throw new InvalidInputError(`"${text}" is not a range. Write it as a..b.`);
  return { from: from === '' ? undefined : from, to: to === '' ? '@' : to };
}

/** The checkpoints of a range, oldest first: those after `from` up to `to`, `from` itself too if `isClosed`. */
export async function readRange(
  opened: OpenStorage,
  text: string,
  { isClosed = false }: { readonly isClosed?: boolean } = {},
): Promise<Checkpoint[]> {
  const range = parseRange(text) ?? { from: undefined, to: text };
  const to = await resolveRevision(opened, range.to);
  const from = range.from === undefined ? undefined : await resolveRevision(opened, range.from);
  const found: Checkpoint[] = [];
  for await (const checkpoint of readLive(opened.storage, to)) {
    if (checkpoint.id === from?.id) return (isClosed ? [...found, checkpoint] : found).reverse();
    found.push(checkpoint);
  }
  if (from === undefined) return found.reverse();
  throw new InvalidInputError(`${from.id} is not an ancestor of ${to.id}, so ${text} is not a range of one history.`);
}

const LAST_CHECKPOINTS = 20;

/** Names that may be completed: branches, and unless only these are wanted tags and the last checkpoints. */
export async function listRevisions(opened: OpenStorage, { isBranchesOnly = false } = {}): Promise<string[]> {
  const sessionId = await opened.findSession();
  if (sessionId === undefined) return [];
  const branches = (await opened.manager.branches(sessionId))
    .map(({ branch }) => branch)
    .filter((branch) => !isAnswerBranch(branch));
  if (isBranchesOnly) return branches;
  const tags = (await opened.manager.tags(sessionId)).map(({ name }) => name);
  const { checkpoints } = await opened.manager.list({ sessionId }, { limit: LAST_CHECKPOINTS });
  return ['@', ...branches, ...tags, ...checkpoints.map(({ id }) => id)];
}
