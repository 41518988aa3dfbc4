import { createReadStream, existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { MAX_DOCUMENT_BYTES } from '../../../adapter/interchange/document.ts';
import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import { type Command, type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { resolveFile } from '../../place/read-text.ts';
import { formatCount } from '../../terminal/format.ts';

/** Lines that are named; more are counted, and all are in the JSON. */
const MAX_NAMED = 10;

/** Reads an exported session, or the transcripts of another tool. */
export const command: Command = {
  arguments: '<file|tool> [path]',
  details: `Everything is checked; a broken file imports nothing. The storage is created if it does not exist. - reads standard input.
import claude <folder> imports transcripts of Claude Code and the Claude Agent SDK: ~/.claude/projects, one project of it, or one file.
Existing sessions are not touched, so you can run it again. Exits with 3 if lines or links were skipped.
import atif <file> imports a trajectory (Agent Trajectory Interchange Format 1.x) with its subagents; import otlp <file> imports
traces (OTLP JSON, whole or one per line), a session for each conversation. A step or call becomes a checkpoint.`,
  examples: [
    ['savestate import chat.jsonl', 'into the configured storage'],
    ['gunzip -c chat.jsonl.gz | savestate import - --storage other.db', 'into another one'],
    ['savestate import claude ~/.claude/projects', 'all local transcripts of Claude'],
    ['savestate import atif trajectory.json', 'a run of another agent'],
    ['savestate import otlp traces.jsonl && savestate drift', 'traces, and whether they go in circles'],
  ],
  run: async (context, input) => {
    const [file, path] = [input.need(0, 'which file'), input.word(1)];
    if (path === undefined) return importFile(context, file);
    if (file === 'claude') return importClaude(context, resolve(context.folder, path));
    if (file === 'atif' || file === 'otlp') return importForeign(context, file, path);
    throw new InvalidInputError(
      `import takes one file, or a tool and what to read; found "${file}". Tools: claude, atif, otlp.`,
    );
  },
};

/** What reads a file that was named, or standard input for `-`, block by block. */
function findInput({ folder }: Context, file: string): () => AsyncIterable<Buffer> {
  if (file === '-') return () => process.stdin;
  const path = resolveFile(folder, file);
  if (!existsSync(path)) throw new NotFoundError(`There is no file ${file}.`);
  return () => createReadStream(path);
}

async function importFile(context: Context, file: string): Promise<undefined> {
  const read = findInput(context, file);
  const { manager } = await context.open({ create: true });
  const { sessionId, checkpoints, chunks, effects } = await manager.importSession(
    context.watch(read(), { noun: 'blocks', total: undefined }),
  );
  await context.answer(
    { sessionId, checkpoints, chunks, effects },
    () => `Session "${sessionId}": ${formatCount(checkpoints, 'checkpoint')}, ${formatCount(effects, 'effect')}.\n`,
  );
  context.say(`See it: ${context.command('log', sessionId)}`);
}

async function importClaude(context: Context, folder: string): Promise<ExitCode | undefined> {
  const [{ SavestateSessionStore }, { importLocalTranscripts }] = await Promise.all([
    import('../../../adapter/claude/savestate-session-store.ts'),
    import('../../../adapter/interchange/local-transcripts.ts'),
  ]);
  if (!existsSync(folder)) throw new NotFoundError(`There is no folder or file ${folder}.`);
  const { storage } = await context.open({ create: true });
  const { signal } = context;
  const report = await context.showing({ noun: 'transcripts', total: undefined }, (onFile) =>
    importLocalTranscripts(new SavestateSessionStore(storage), folder, { signal, onFile }),
  );
  const { sessions, subagents, entries, present, skipped } = report;
  await context.answer(
    report,
    () =>
      `${formatCount(sessions, 'session')}, ${formatCount(subagents, 'subagent')}: ${formatCount(entries, 'new entry')}, ${present} there already.\n`,
  );
  for (const { file, line, reason } of skipped.slice(0, MAX_NAMED))
    context.say(`Skipped ${line === undefined ? file : `${file}:${line}`}: ${reason}.`);
  if (skipped.length > MAX_NAMED) context.say(`... and ${skipped.length - MAX_NAMED} more; --json names all.`);
  return skipped.length === 0 ? undefined : EXIT.partial;
}

/** Brings in a trajectory (ATIF) or traces (OTLP JSON) as sessions. */
async function importForeign(context: Context, format: 'atif' | 'otlp', file: string): Promise<undefined> {
  const document = await readDocument(context, file);
  const { runs, ...counts } =
    format === 'otlp'
      ? (await import('../../../adapter/interchange/otlp.ts')).readOtlp(document)
      : { runs: (await import('../../../adapter/interchange/atif.ts')).readAtif(document), spans: 0, otherSpans: 0 };
  const { storeRuns } = await import('../../../adapter/interchange/imported-session.ts');
  const { manager } = await context.open({ create: true });
  const sessions = await storeRuns(manager, runs);
  await context.answer({ sessions, ...counts }, () =>
    sessions
      .map(({ sessionId, checkpoints, messages, isNew }) => {
        const what = `${formatCount(checkpoints, 'checkpoint')}, ${formatCount(messages, 'message')}`;
        return `Session "${sessionId}": ${isNew ? what : 'there already, left alone'}.\n`;
      })
      .join(''),
  );
  if (counts.otherSpans) context.say(`${counts.otherSpans} of ${counts.spans} spans call no model or tool: left out.`);
  const first = sessions[0]?.sessionId;
  context.say(`See it: ${context.command('log', first)}    Loops and stalls: ${context.command('drift', first)}`);
}

async function readDocument(context: Context, file: string): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of findInput(context, file)()) {
    await context.checkStop();
    bytes += part.length;
    if (bytes > MAX_DOCUMENT_BYTES)
      throw new InvalidInputError(
        `${file} has more than ${MAX_DOCUMENT_BYTES / 1024 ** 2} MiB, which is more than is imported at once. Split it.`,
      );
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
