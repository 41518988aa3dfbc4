import { createReadStream, existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { EXIT, type ExitCode } from '../../base/exit-code.ts';
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
    if (file === 'atif' || file === 'otlp')
      return (await import('./foreign-import.ts')).importForeign(context, file, path);
    throw new InvalidInputError(
      `import takes one file, or a tool and what to read; found "${file}". Tools: claude, atif, otlp.`,
    );
  },
};

async function importFile(context: Context, file: string): Promise<undefined> {
  if (file !== '-' && !existsSync(file)) throw new NotFoundError(`There is no file ${file}.`);
  const { manager } = await context.open({ create: true });
  const source = file === '-' ? process.stdin : createReadStream(file);
  const { sessionId, checkpoints, chunks, effects } = await manager.importSession(
    context.watch<Uint8Array | string>(source, { noun: 'blocks', total: undefined }),
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
  const bar = context.progress({ noun: 'transcripts', total: undefined });
  const { signal } = context;
  const onFile = (done: number): void => bar.show(done);
  const report = await importLocalTranscripts(new SavestateSessionStore(storage), folder, { signal, onFile }).finally(
    () => bar.end(),
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
