import { InvalidInputError } from '../../../core/errors.ts';
import { formatPath, type PathStep } from '../../../core/path.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { checkRef } from '../../../storage/ref.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import { EXIT } from '../../base/exit-code.ts';
import type { OpenStorage } from '../../base/open-storage.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { viewOf } from '../../state/state-view.ts';
import { Telling } from '../../state/telling.ts';
import { clip, formatRows } from '../../terminal/format.ts';

type Found = { readonly path: string; readonly text: string };
type Match = Found & { readonly checkpointId: string; readonly sequence: number; readonly savedAt: string };

const CONTEXT_CHARS = 60;

/** Searches states. */
export const command: Command = {
  arguments: '<pattern> [revision]',
  options: [
    ['-i, --ignore-case', 'great and small letters are the same'],
    ['-F, --fixed', 'the pattern is a text, and no regular expression'],
    ['--at', 'only the state of this one checkpoint'],
    ['-n <count>', 'stop after so many'],
  ],
  details:
    'Goes through a history from its beginning, and tells where a match came in: what was there already is not told again, and a message once. Exits with 13 if there is none, and says where else there would be one.',
  examples: [
    ['savestate grep refund', 'where "refund" was said first, and again'],
    ['savestate grep -i "order \\d+" v1..@', 'since the tag v1'],
    ['savestate grep --at token @', 'in the newest state only'],
  ],
  run: async (context, input) => {
    const pattern = createPattern(input);
    const limit = input.count('n') ?? Number.POSITIVE_INFINITY;
    const matches: Match[] = [];
    for await (const match of search(context, input, pattern)) {
      if (matches.length >= limit) break;
      matches.push(match);
    }
    await context.answer(matches, () => format(context, matches));
    if (matches.length > 0) return undefined;
    for (const line of await describeNothing(context, pattern)) context.say(line);
    return EXIT.notFound;
  },
};

function createPattern(input: CommandInput): RegExp {
  const text = input.need(0, 'what to search for');
  const source = input.flag('fixed') ? text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&') : text;
  try {
    return new RegExp(source, input.flag('ignoreCase') ? 'iu' : 'u');
  } catch (cause) {
    throw new InvalidInputError(`"${text}" is no regular expression. To search for it as a text, say --fixed.`, {
      cause,
    });
  }
}

async function* search(context: Context, input: CommandInput, pattern: RegExp): AsyncGenerator<Match> {
  const opened = await context.open();
  const revision = input.word(1) ?? '@';
  if (input.flag('at')) {
    const checkpoint = await resolveRevision(opened, revision);
    const state = await opened.manager.load(checkpoint.id);
    const telling = new Telling<Match>(viewOf(state));
    yield* telling.tell(toMatches(checkpoint, [{ path: '$', newValue: state }], pattern));
    return yield* telling.rest();
  }
  const checkpoints = await readRange(opened, revision, { isClosed: true });
  const hasStart = parseRange(revision)?.from !== undefined; // what was there at the start of a range is not new in it
  const [first] = checkpoints;
  const telling = new Telling<Match>(viewOf(first === undefined ? undefined : await opened.manager.load(first.id)));
  const work = { noun: 'checkpoints', total: checkpoints.length };
  for await (const [at, checkpoint] of context.watch(checkpoints.entries(), work)) {
    if (at === 0 && hasStart) continue;
    yield* telling.tell(toMatches(checkpoint, await readNew(opened, checkpoint, checkpoints[at - 1]), pattern));
  }
  yield* telling.rest();
}

type New = { readonly path: string; readonly newValue: unknown };

/** Only what a checkpoint added or changed is looked at, so a long history costs what is in it once. */
async function readNew({ manager }: OpenStorage, { id }: Checkpoint, before: Checkpoint | undefined): Promise<New[]> {
  if (before === undefined) return [{ path: '$', newValue: await manager.load(id) }];
  const { added, modified } = await manager.compare(before.id, id);
  return [...modified, ...added];
}

function toMatches({ id, sequence, timestamp }: Checkpoint, news: readonly New[], pattern: RegExp): Match[] {
  const savedAt = timestamp.toISOString();
  return news.flatMap(({ path: base, newValue }) =>
    [...findTexts(newValue, pattern)].map(({ path, text }) => ({
      checkpointId: id,
      sequence,
      savedAt,
      path: base + path.slice(1),
      text,
    })),
  );
}

/** Every text below a value that fits, with its path. */
function* findTexts(value: unknown, pattern: RegExp, path: readonly PathStep[] = []): Generator<Found> {
  if (typeof value === 'string') {
    if (pattern.test(value)) yield { path: formatPath(path), text: value };
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of entriesOf(value)) yield* findTexts(child, pattern, [...path, key]);
}

function entriesOf(value: object): Iterable<[PathStep, unknown]> {
  if (Array.isArray(value) || value instanceof Set) return [...value].entries();
  if (value instanceof Map) return [...value].map(([key, child]): [PathStep, unknown] => [String(key), child]);
  return Object.entries(value);
}

/** Heads that are looked into when nothing was found: those of other branches and of the sessions that were saved to last. */
const MAX_OTHERS = 50;

/** Where it was looked for, and where else it is. */
async function describeNothing(context: Context, pattern: RegExp): Promise<string[]> {
  const opened = await context.open();
  const sessionId = await opened.session();
  const branch = await opened.manager.currentBranch(sessionId);
  const refs = (await opened.storage.readRefs({ kind: 'branch' })).map(checkRef);
  const others = refs
    .filter((ref) => ref.sessionId !== sessionId || ref.name !== branch)
    .sort((a, b) => (a.target < b.target ? 1 : -1))
    .slice(0, MAX_OTHERS);
  const lines = [`Nothing matches in session "${sessionId}", branch "${branch}".`];
  for (const { sessionId: other, name, target } of others) {
    await context.checkStop();
    const state = await opened.manager.load(target).catch(() => undefined); // a damaged one is for verify to tell
    const { value: found } = findTexts(state, pattern).next();
    const isHere = other === sessionId;
    if (found !== undefined)
      lines.push(
        isHere ? `It is in branch "${name}": ${name} as revision` : `It is in session "${other}": --session ${other}`,
      );
  }
  return lines;
}

function format({ terminal }: Context, matches: readonly Match[]): string {
  const { style, isScreen } = terminal;
  const rows = matches.map(({ checkpointId, sequence, path, text }) => [
    `#${sequence}`,
    style.cyan(checkpointId),
    style.bold(path),
    clip(text, isScreen ? CONTEXT_CHARS * 2 : 1_000),
  ]);
  return formatRows(terminal, rows, { right: [0] });
}
