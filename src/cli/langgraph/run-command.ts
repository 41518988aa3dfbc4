import {
  exportThreads,
  importThreads,
  SavestateSaver,
  type TransferNote,
  type TransferReport,
} from '../../adapter/langgraph/index.ts';
import { SavestateError } from '../../core/errors.ts';
import { type Arguments, parseArguments, USAGE, UsageError } from './arguments.ts';
import { measureFile, openOfficialSaver, openSource, openStorage } from './places.ts';
import { ProgressBar } from './progress-bar.ts';
import { formatNamed, formatReport } from './report-text.ts';
import type { Terminal } from './terminal.ts';

const EXIT = { done: 0, failed: 1, usage: 2, notWhole: 3, stopped: 130 };

/** What a transfer is told besides where. */
type Hooks = Pick<NonNullable<Parameters<typeof importThreads>[2]>, 'onProgress' | 'onNote' | 'signal' | 'threads'>;

/** Runs one command; answers the exit code. */
export async function runCommand(args: readonly string[], terminal: Terminal, signal: AbortSignal): Promise<number> {
  try {
    const parsed = parseArguments(args);
    if (parsed !== undefined) return await transfer(parsed, terminal, signal);
    terminal.print(USAGE);
    return EXIT.done;
  } catch (error) {
    return explain(error, terminal, signal);
  }
}

async function transfer(args: Arguments, terminal: Terminal, signal: AbortSignal): Promise<number> {
  const bar = args.json ? undefined : new ProgressBar(terminal);
  const named: { skipped: TransferNote[]; lossy: TransferNote[] } = { skipped: [], lossy: [] };
  const hooks: Hooks = {
    signal,
    onNote: (note, list) => named[list].push(note),
    ...(args.threads !== undefined && { threads: args.threads }),
    ...(bar !== undefined && { onProgress: (progress) => bar.show(progress) }),
  };
  const report = await run(args, hooks)
    .finally(() => bar?.end())
    .catch((error: unknown) => {
      // The next run finds these there, and does not name them again.
      for (const line of formatNamed(named)) terminal.note(`${line}\n`);
      throw error;
    });
  terminal.print(args.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report, args));
  return report.skipped.length + report.lossy.length === 0 ? EXIT.done : EXIT.notWhole;
}

async function run(args: Arguments, hooks: Hooks): Promise<TransferReport> {
  const report = args.command === 'import' ? await runImport(args, hooks) : await runExport(args, hooks);
  const bytesAfter = measureFile(args.to);
  return bytesAfter === undefined ? report : { ...report, bytesAfter };
}

/** The source is opened first, so that nothing is made if it is the wrong one. */
async function runImport(args: Arguments, hooks: Hooks): Promise<TransferReport> {
  const source = await openSource(args);
  try {
    const storage = await openStorage(args.to, { tenant: args.tenant, mustExist: false });
    try {
      return await importThreads(source, new SavestateSaver(storage), { ...hooks, storage });
    } finally {
      await storage.close();
    }
  } finally {
    await source.close();
  }
}

async function runExport(args: Arguments, hooks: Hooks): Promise<TransferReport> {
  const storage = await openStorage(args.from, { tenant: args.tenant, mustExist: true });
  try {
    const { saver: target, close } = await openOfficialSaver(args);
    try {
      return await exportThreads(new SavestateSaver(storage), target, {
        ...hooks,
        storage,
        allowLossy: args.allowLossy,
      });
    } finally {
      await close();
    }
  } finally {
    await storage.close();
  }
}

function explain(error: unknown, terminal: Terminal, signal: AbortSignal): number {
  if (signal.aborted) {
    terminal.note('Stopped. What was stored stays; run the same command again to go on.\n');
    return EXIT.stopped;
  }
  if (!(error instanceof SavestateError)) throw error;
  terminal.note(`${error.message}\n`);
  if (!(error instanceof UsageError)) return EXIT.failed;
  terminal.note('Run it with --help to see how it is used.\n');
  return EXIT.usage;
}
