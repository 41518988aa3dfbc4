import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import { checkValue, string } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isCheckpointId, type SessionId } from '../../core/record/id.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import { parseTime } from './parse-time.ts';
import { SUFFIX } from './ref-name.ts';
import { countedMessages, readLive, readRounds } from './rounds.ts';
import { listMessages, toolsCalledBy } from './transcript.ts';

/** What may be written for a checkpoint, for messages. */
export const REVISION_FORMS =
  'an id or its beginning, a branch, a tag, @ (the head), @~3, name~2, #12 (its number on the branch), @{2h ago}, "message 3", "round 2", "before tool search"';

/** Where a revision is read. */
type RevisionPlace = {
  /** Undefined where there is none yet: then only ids are found. */
  readonly sessionId: SessionId | undefined;
  /** What `@` means. */
  readonly head: () => CheckpointId | Promise<CheckpointId>;
  /** A name beside branches and tags. */
  readonly findName?: (text: string) => Promise<CheckpointId | undefined>;
};

/** Fewer characters fit too much by chance. */
const MIN_PREFIX_CHARS = 4;
const ID_LIKE = /^(chk_)?[0-9a-hjkmnp-tv-z]+$/;
/** Longer than any name with what may follow it: looking for the end of a name in more takes time by its square. */
const MAX_SUFFIXED_CHARS = 1_000;
/** Finds the checkpoint that a revision names. Branches and tags of older versions may look like anything else, so they come first. */
export async function resolveRevision(engine: Engine, place: RevisionPlace, text: string): Promise<Checkpoint> {
  checkValue(text, string, 'A revision');
  if (isCheckpointId(text)) return engine.open(text);
  const id = text === '@' ? await place.head() : await findNamed(engine, place, text);
  if (id !== undefined) return engine.open(id);
  const found = text.length > MAX_SUFFIXED_CHARS ? null : SUFFIX.exec(text);
  if (found === null) return openPrefix(engine, text);
  const [, base = ''] = found;
  const from = await resolveRevision(engine, place, base === '' ? '@' : base);
  return resolveSuffix(engine, from, found.groups ?? {});
}

async function findNamed(
  { repository }: Engine,
  place: RevisionPlace,
  text: string,
): Promise<CheckpointId | undefined> {
  const { sessionId } = place;
  if (sessionId === undefined || text === '') return undefined;
  for (const kind of ['branch', 'tag'] as const) {
    const target = await repository.readRef(sessionId, kind, text);
    if (target !== undefined) return target as CheckpointId;
  }
  return place.findName?.(text);
}

type Suffix = { readonly [part: string]: string | undefined };

async function resolveSuffix(engine: Engine, from: Checkpoint, suffix: Suffix): Promise<Checkpoint> {
  const { back, parent, number, time, message, round, tool } = suffix;
  if (back !== undefined || parent !== undefined) return goBack(engine, from, back ? Number(back) : 1);
  if (number !== undefined)
    return find(engine, from, { what: `#${number}`, fits: (each) => each.sequence === Number(number) });
  if (time !== undefined) return openAtTime(engine, from, time);
  if (message !== undefined) return openMessage(engine, from, Number(message));
  return round === undefined ? openBeforeTool(engine, from, tool) : openRound(engine, from, Number(round));
}

async function openPrefix(engine: Engine, text: string): Promise<Checkpoint> {
  if (ID_LIKE.test(text) && text.replace('chk_', '').length >= MIN_PREFIX_CHARS) return engine.open(text);
  throw new NotFoundError(`There is no checkpoint "${text}". A revision is ${REVISION_FORMS}.`, {
    details: { revision: text },
  });
}

async function goBack({ storage }: Engine, from: Checkpoint, steps: number): Promise<Checkpoint> {
  let count = 0;
  for await (const checkpoint of readLive(storage, from)) if (count++ === steps) return checkpoint;
  const asked = formatCount(steps, 'checkpoint');
  throw new NotFoundError(`Cannot go back ${asked} from ${from.id}: it has ${count - 1 || 'none'} before it.`);
}

async function openAtTime(engine: Engine, from: Checkpoint, text: string): Promise<Checkpoint> {
  const time = parseTime(text, engine.ports.now());
  return find(engine, from, {
    what: `checkpoint saved by ${time.toISOString()}`,
    fits: (each) => each.timestamp <= time,
  });
}

type Wanted = { readonly what: string; readonly fits: (checkpoint: Checkpoint) => boolean };

async function find({ storage }: Engine, from: Checkpoint, { what, fits }: Wanted): Promise<Checkpoint> {
  for await (const checkpoint of readLive(storage, from)) if (fits(checkpoint)) return checkpoint;
  throw new NotFoundError(`Among the ancestors of ${from.id} there is no ${what}.`);
}

async function openRound({ storage }: Engine, from: Checkpoint, wanted: number): Promise<Checkpoint> {
  for await (const { number, end } of readRounds(storage, from)) if (number === wanted) return end;
  throw new NotFoundError(`Among the ancestors of ${from.id} there is no end of round ${wanted}.`, {
    details: { round: wanted },
  });
}

/** The first checkpoint that has just this many messages: the one right after the last of them. */
async function openMessage(engine: Engine, from: Checkpoint, wanted: number): Promise<Checkpoint> {
  let found: Checkpoint | undefined;
  const others = new Set<number>();
  for await (const checkpoint of readLive(engine.storage, from)) {
    const count = await countMessages(engine, checkpoint);
    if (count === wanted) found = checkpoint;
    else if (found !== undefined) return found;
    else if (count !== undefined) others.add(count);
  }
  if (found !== undefined) return found;
  const nearest = [...others].sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted)).slice(0, 2);
  throw new NotFoundError(
    `No checkpoint up to ${from.id} was saved right after message ${wanted}${nearest.length === 0 ? '; there are no messages' : `; there are some after message ${nearest.sort((a, b) => a - b).join(' and ')}`}.`,
    { details: { message: wanted, checkpointId: from.id } },
  );
}

async function countMessages(engine: Engine, checkpoint: Checkpoint): Promise<number | undefined> {
  return countedMessages(checkpoint) ?? (await readMessages(engine, checkpoint))?.length;
}

async function readMessages(engine: Engine, { id }: Checkpoint): Promise<readonly unknown[] | undefined> {
  return listMessages(await readState(engine, await engine.repository.open(id)));
}

/** The newest checkpoint without the message that last called the tool, or any tool. */
async function openBeforeTool(engine: Engine, from: Checkpoint, tool: string | undefined): Promise<Checkpoint> {
  const messages = (await readMessages(engine, from)) ?? [];
  const at = messages.findLastIndex((message) => isCalled(toolsCalledBy(message), tool));
  const what = tool === undefined ? 'a tool' : `the tool "${tool}"`;
  if (at < 0) throw new NotFoundError(`No message up to ${from.id} calls ${what}.`, { details: { tool } });
  for await (const checkpoint of readLive(engine.storage, from)) {
    const count = await countMessages(engine, checkpoint);
    if (count !== undefined && count <= at && !isPending(checkpoint)) return checkpoint;
  }
  throw new NotFoundError(`The first checkpoint up to ${from.id} already holds the message that calls ${what}.`);
}

function isCalled(called: readonly string[], tool: string | undefined): boolean {
  return tool === undefined ? called.length > 0 : called.includes(tool);
}

/** A reply that only its speaker knows yet was made with its calls. */
function isPending({ metadata }: Checkpoint): boolean {
  return metadata?.isPending === true;
}
