import { isDeepStrictEqual } from 'node:util';
import { formatPath, type PathStep } from '../../../core/path.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { readLive, resolveRevision } from '../../revision/resolve-revision.ts';
import { findAt, openAt, parseStatePath } from '../../revision/state-path.ts';
import { type CheckpointOutput, toOutput } from '../../state/checkpoint-text.ts';
import { formatValue, toJsonForm } from '../../state/json-form.ts';
import { readMessage } from '../../state/message-text.ts';
import { clip, formatRows, formatTime } from '../../terminal/format.ts';

/** Says where values come from. */
export const command: Command = {
  arguments: '<path> [revision]',
  details:
    'Of a list or an object it tells each element; of any other value the value itself. --whole tells it as one.',
  options: [['--whole', 'the value as one, also if it has parts']],
  examples: [
    ['savestate blame $.messages', 'which checkpoint brought each message'],
    ['savestate blame plan.tone v1', 'who set this last, at the tag v1'],
  ],
  run: async (context, input) => {
    const path = parseStatePath(input.need(0, 'which path'));
    const opened = await context.open();
    const from = await resolveRevision(opened, input.word(1) ?? '@');
    const state = await opened.manager.load(from.id);
    const value = openAt(state, path);
    const paths = input.flag('whole') ? [path] : pathsBelow(path, value);
    const found = await attribute(context, { from, state, paths });
    return context.answer(found, () => format(context, found));
  },
};

function pathsBelow(path: readonly PathStep[], value: unknown): PathStep[][] {
  if (Array.isArray(value)) return value.map((_, at) => [...path, at]);
  const isPlain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && Object.keys(value).length > 0 ? Object.keys(value).map((key) => [...path, key]) : [[...path]];
}

type Blamed = { readonly path: string; readonly value: unknown; readonly checkpoint: CheckpointOutput };
type Task = { readonly from: Checkpoint; readonly state: unknown; readonly paths: readonly (readonly PathStep[])[] };

/** Goes back until every value was seen to change; each belongs to the checkpoint after the last one where it was different. */
async function attribute(context: Context, { from, state, paths }: Task): Promise<Blamed[]> {
  const opened = await context.open();
  const owners = new Map<readonly PathStep[], Checkpoint>();
  const open = new Set(paths);
  let [newer, newerState] = [from, state];
  const work = { noun: 'checkpoints', total: from.sequence };
  for await (const older of context.watch(readLive(opened, from), work)) {
    if (older.id === from.id) continue;
    const olderState = older.stateDigest === newer.stateDigest ? newerState : await opened.manager.load(older.id);
    for (const path of open) {
      if (isDeepStrictEqual(findAt(newerState, path), findAt(olderState, path))) continue;
      owners.set(path, newer);
      open.delete(path);
    }
    [newer, newerState] = [older, olderState];
    if (open.size === 0) break;
  }
  return paths.map((path) => ({
    path: formatPath(path),
    value: toJsonForm(findAt(state, path)) ?? null,
    checkpoint: toOutput(owners.get(path) ?? newer),
  }));
}

function format({ terminal }: Context, found: readonly Blamed[]): string {
  const { style } = terminal;
  const rows = found.map(({ path, value, checkpoint }) => {
    const message = readMessage(value);
    const text = message === undefined ? formatValue(value) : `${message.speaker}: ${message.text}`;
    return [
      `#${checkpoint.sequence}`,
      style.cyan(checkpoint.id),
      checkpoint.author ?? checkpoint.trigger ?? checkpoint.type,
      formatTime(new Date(checkpoint.savedAt)),
      path,
      clip(text, Number.POSITIVE_INFINITY),
    ];
  });
  return formatRows(terminal, rows, { right: [0] });
}
