import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { readPath } from '../../manager/engine/records.ts';
import { Repository } from '../../manager/engine/repository.ts';
import { isAnswerBranch } from '../../runtime/run/request-answers.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { parseTime } from './parse-time.ts';

/** Fewer characters fit too much by chance. */
const MIN_PREFIX_CHARS = 4;

/** What a person may write for a checkpoint, for messages. */
export const REVISION_FORMS =
  'an id or its beginning, a branch, a tag, @ (the head), @~3, name~2, #12 (its number on the branch), @{2h ago}, first-bad (after bisect)';

const ID_LIKE = /^(chk_)?[0-9a-hjkmnp-tv-z]+$/;
/** The last thing said about a revision: how far back, which number, or when. */
const SUFFIX = /^(.*?)(?:~(\d*)|\^|#(\d+)|@?\{([^}]*)\})$/s;

/** Finds the checkpoint a revision names. */
export async function resolveRevision(opened: OpenStorage, text: string): Promise<Checkpoint> {
  const id = await findWhole(opened, text);
  if (id !== undefined) return opened.openCheckpoint(id);
  const [, base, back, number, time] = SUFFIX.exec(text) ?? [];
  if (base !== undefined) {
    const from = await resolveRevision(opened, base === '' ? '@' : base);
    if (number !== undefined) return find(opened, from, (each) => each.sequence === Number(number), `#${number}`);
    if (time !== undefined) return atTime(opened, from, time);
    return goBack(opened, from, back === undefined || back === '' ? 1 : Number(back));
  }
  return resolvePrefix(opened, text);
}

/** A name as it stands: branches and tags may look like anything else, so they come first. */
async function findWhole(opened: OpenStorage, text: string): Promise<CheckpointId | undefined> {
  if (text === '@') return opened.position ?? opened.head();
  const sessionId = await opened.findSession();
  if (sessionId === undefined || text === '') return undefined;
  const firstBad = text === 'first-bad' ? await opened.readFirstBad() : undefined;
  if (firstBad !== undefined) return firstBad;
  return (await opened.findName(sessionId, 'branch', text)) ?? (await opened.findName(sessionId, 'tag', text));
}

async function resolvePrefix(opened: OpenStorage, text: string): Promise<Checkpoint> {
  const isIdLike = ID_LIKE.test(text) && text.replace('chk_', '').length >= MIN_PREFIX_CHARS;
  if (!isIdLike) {
    throw new NotFoundError(`There is no checkpoint "${text}". A revision is ${REVISION_FORMS}.`, {
      details: { revision: text },
    });
  }
  return (await new Repository(opened.storage).open(text)).checkpoint;
}

async function goBack(opened: OpenStorage, from: Checkpoint, steps: number): Promise<Checkpoint> {
  let left = steps;
  for await (const checkpoint of readLive(opened, from)) if (left-- === 0) return checkpoint;
  throw new NotFoundError(`There is no checkpoint ${steps} before ${from.id}: only ${steps - left - 1} are.`);
}

async function atTime(opened: OpenStorage, from: Checkpoint, text: string): Promise<Checkpoint> {
  const time = parseTime(text, Date.now());
  return find(opened, from, (each) => each.timestamp <= time, `checkpoint saved by ${time.toISOString()}`);
}

async function find(
  opened: OpenStorage,
  from: Checkpoint,
  ...[isWanted, what]: [isWanted: (checkpoint: Checkpoint) => boolean, what: string]
): Promise<Checkpoint> {
  for await (const checkpoint of readLive(opened, from)) if (isWanted(checkpoint)) return checkpoint;
  throw new NotFoundError(`Among the ancestors of ${from.id} there is no ${what}.`);
}

/** A checkpoint and its ancestors, newest first, without the deleted ones. */
export async function* readLive(opened: OpenStorage, from: Checkpoint): AsyncGenerator<Checkpoint> {
  for await (const { checkpoint } of readPath(opened.storage, from)) if (checkpoint !== undefined) yield checkpoint;
}

/** Reads `a..b`; either side may be left out and means the first checkpoint, or `@`. Undefined if it is no range. */
export function parseRange(text: string): { readonly from: string | undefined; readonly to: string } | undefined {
  const at = text.indexOf('..');
  if (at < 0) return undefined;
  const [from, to] = [text.slice(0, at), text.slice(at + 2)];
  if (to.startsWith('.')) throw new InvalidInputError(`"${text}" is no range. Write it like a..b.`);
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
  for await (const checkpoint of readLive(opened, to)) {
    if (checkpoint.id === from?.id) return (isClosed ? [...found, checkpoint] : found).reverse();
    found.push(checkpoint);
  }
  if (from === undefined) return found.reverse();
  throw new InvalidInputError(`${from.id} is not an ancestor of ${to.id}, so ${text} is no range of one history.`);
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
