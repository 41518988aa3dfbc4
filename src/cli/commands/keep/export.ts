import { randomUUID } from 'node:crypto';
import { createWriteStream, realpathSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ConflictError, InvalidInputError } from '../../../core/errors.ts';
import { formatSafeJson } from '../../../core/safe-json.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { formatSize } from '../../terminal/format.ts';

/** Writes what is stored to a file. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['-o, --output <file>', 'where to; default: standard output'],
    ['--format <format>', 'atif: the messages as an ATIF trajectory, for other tools'],
    ['--force', 'replace the file if it exists'],
  ],
  details:
    'Without a revision: the whole session, as one self-contained file of lines that import reads. With one: that checkpoint with its state, as JSON for people.',
  examples: [
    ['savestate export -o chat.jsonl', 'the session, to a file'],
    ['savestate export -s chat-42 | gzip > chat-42.jsonl.gz', 'another one, through a pipe'],
    ['savestate export @~2', 'one checkpoint, readable'],
    ['savestate export --format atif -o trajectory.json', 'for viewers, evaluation and training'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const [revision, format] = [input.word(0), input.text('format')];
    if (format !== undefined && format !== 'atif')
      throw new InvalidInputError(`There is no format "${format}". Formats: atif.`);
    if (format === undefined && revision === undefined) {
      const sessionId = await opened.session();
      return write(context, input, { sessionId, text: opened.manager.exportSession(sessionId) });
    }
    const checkpoint = await resolveRevision(opened, revision ?? '@');
    const json =
      format === undefined
        ? await opened.manager.exportCheckpoint(checkpoint.id)
        : await (await import('../../state/atif.ts')).exportAtif(opened.manager, checkpoint);
    const text = [`${formatSafeJson(json, 2)}\n`];
    return write(context, input, { sessionId: checkpoint.sessionId, text });
  },
};

type Content = { readonly sessionId: string; readonly text: AsyncIterable<string> | Iterable<string> };

async function write(context: Context, input: CommandInput, { sessionId, text }: Content): Promise<undefined> {
  const file = input.text('output');
  if (file === undefined) {
    for await (const part of oneBehind(text)) {
      await context.checkStop();
      context.terminal.printWhole(part);
    }
    return undefined;
  }
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === true && !input.flag('force'))
    throw new ConflictError(`The file ${file} already exists. Pass --force to replace it.`);
  const bytes = await writeWhole(context, file, text);
  return context.answer({ file, sessionId, bytes }, () => `${file}: session "${sessionId}", ${formatSize(bytes)}\n`);
}

/** Each line when the next one could be read: of a session that cannot be read nothing is printed. */
async function* oneBehind(lines: Content['text']): AsyncGenerator<string> {
  let before: string | undefined;
  for await (const line of lines) {
    if (before !== undefined) yield before;
    before = line;
  }
  if (before !== undefined) yield before;
}

/** The file appears when it is whole: a command that was stopped leaves none. A pipe or a device is written, never replaced. */
async function writeWhole(context: Context, file: string, text: Content['text']): Promise<number> {
  const folder = dirname(file);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new InvalidInputError(
      `${file} cannot be written: ${folder} is not a folder. Create it or choose another path.`,
    );
  const there = statSync(file, { throwIfNoEntry: false });
  const target = there === undefined ? file : realpathSync(file);
  const draft = there === undefined || there.isFile() ? `${target}.${randomUUID().slice(0, 8)}.part` : target;
  let bytes = 0;
  const counted = async function* () {
    for await (const part of context.watch(text, { noun: 'lines', total: undefined })) {
      bytes += Buffer.byteLength(part);
      yield part;
    }
  };
  try {
    await pipeline(counted, createWriteStream(draft, { mode: there?.mode }), { signal: context.signal });
    if (draft !== target) await rename(draft, target);
    return bytes;
  } finally {
    if (draft !== target) await rm(draft, { force: true });
  }
}
