import type { LinearPattern } from '../../../core/pattern/linear-pattern.ts';
import { eachHead } from '../../../view/list-sessions.ts';
import { excerptOf, findTexts, type Match, patternOf, searchHistory, searchState } from '../../../view/search.ts';
import type { Command } from '../../base/command.ts';
import { type CommandInput, formatFlags, quoteArgument } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import { EXIT } from '../../base/exit-code.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { shortenId } from '../../state/checkpoint-text.ts';
import { clip, formatRows } from '../../terminal/format.ts';

/** Searches states. */
export const command: Command = {
  arguments: '<pattern> [revision]',
  options: [
    ['-i, --ignore-case', 'ignore case'],
    ['-F, --fixed', 'the pattern is plain text, not a regular expression'],
    ['--at', 'only the state of this one checkpoint'],
    ['-n <count>', 'stop after this many matches'],
  ],
  details: `Searches a history from its start and shows where each match first appeared; a message is shown once. Exits with 13 if there is no match, and says where else to look.
The pattern is a regular expression of JavaScript without lookarounds and references to groups, so that none takes long.`,
  examples: [
    ['savestate grep refund', 'each message that says "refund"'],
    ['savestate grep -i "order \\d+" v1..@', 'since the tag v1'],
    ['savestate grep --at token @', 'in the newest state only'],
  ],
  run: async (context, input) => {
    const pattern = patternOf({
      text: input.need(0, 'what to search for'),
      isPlain: input.flag('fixed'),
      ignoresCase: input.flag('ignoreCase'),
    });
    const limit = input.limit() ?? Number.POSITIVE_INFINITY;
    const matches: Match[] = [];
    for await (const match of search(context, input, pattern)) {
      if (matches.length >= limit) break;
      matches.push(match);
    }
    await context.answer(matches, () => format(context, matches, pattern));
    if (matches.length > 0) return undefined;
    for (const line of await describeNothing(context, pattern)) context.say(line);
    return EXIT.notFound;
  },
};

async function* search(context: Context, input: CommandInput, pattern: LinearPattern): AsyncGenerator<Match> {
  const opened = await context.open();
  const revision = input.word(1) ?? '@';
  if (input.flag('at')) {
    const checkpoint = await resolveRevision(opened, revision);
    return yield* searchState(opened.manager, checkpoint, pattern);
  }
  const checkpoints = await readRange(opened, revision, { isClosed: true });
  const hasStart = parseRange(revision)?.from !== undefined; // what was there at the start of a range is not new in it
  yield* searchHistory(opened.manager, checkpoints, { pattern, hasStart, watch: context.watchCheckpoints });
}

/** Heads that are looked into when nothing was found: those of other branches and of the sessions that were saved to last. */
const MAX_OTHERS = 50;

/** Where it was looked for, and where else it is. */
async function describeNothing(context: Context, pattern: LinearPattern): Promise<string[]> {
  const opened = await context.open();
  const { manager } = opened;
  const sessionId = await opened.session();
  const branch = await manager.currentBranch(sessionId);
  const lines = new Set([`Nothing matches in session "${sessionId}", branch "${branch}".`]);
  let left = MAX_OTHERS;
  for await (const { sessionId: other, branch: name, id } of eachHead(manager)) {
    const isHere = other === sessionId;
    if (isHere && name === branch) continue;
    if (left-- === 0) break;
    await context.checkStop();
    const state = await manager.load(id).catch(() => undefined); // a damaged one is for verify to tell
    if (findTexts(state, pattern).next().done === true) continue;
    lines.add(
      isHere
        ? `It is in branch "${name}": ${quoteArgument(name)} as revision`
        : `It is in session "${other}":${formatFlags({ session: other })}`,
    );
  }
  return [...lines];
}

/** A field of a message, which stands for the message. */
const IN_MESSAGE = /^\$(?:\.(?:chat|fleet|channel_values))?\.(messages\[\d+\]).*$/;
const PIPE_CHARS = 1_000;

function format({ terminal }: Context, matches: readonly Match[], pattern: LinearPattern): string {
  const { style, isScreen, columns } = terminal;
  const rows = matches.map(({ checkpointId, sequence, path, text }) => [
    `#${sequence}`,
    style.cyan(isScreen ? shortenId(checkpointId) : checkpointId),
    style.bold(isScreen ? path.replace(IN_MESSAGE, '$1') : path),
    clip(isScreen ? excerptOf(text, pattern, columns) : text, PIPE_CHARS),
  ]);
  return formatRows(terminal, rows, { right: [0], spare: [1] });
}
