import { exportThreads, importThreads, SavestateSaver, type TransferReport } from '../../adapter/langgraph/index.ts';
import type { TransferNote } from '../../adapter/langgraph/transfer/transfer-report.ts';
import type { Context } from '../base/context.ts';
import { EXIT, type ExitCode } from '../base/exit-code.ts';
import type { ProgressBar } from '../terminal/progress-bar.ts';
import { measureFile, openOfficialSaver, openSource, openThreadStorage } from './places.ts';
import { formatNamed, formatReport } from './report-text.ts';

/** What a person asked for. */
export type Transfer = {
  readonly direction: 'import' | 'export';
  readonly from: string;
  readonly to: string;
  readonly threads?: readonly string[];
  readonly allowLossy: boolean;
};

/** What a transfer takes besides where from and where to. */
type Hooks = Pick<NonNullable<Parameters<typeof importThreads>[2]>, 'onProgress' | 'onNote' | 'signal' | 'threads'>;

/** Moves threads and reports what became of them. */
export async function transfer(context: Context, wanted: Transfer): Promise<ExitCode | undefined> {
  const named: { skipped: TransferNote[]; lossy: TransferNote[] } = { skipped: [], lossy: [] };
  let bar: ProgressBar | undefined;
  const hooks: Hooks = {
    signal: context.signal,
    onNote: (note, list) => named[list].push(note),
    onProgress: ({ checkpoints: total, checkpointsDone }) => {
      bar ??= context.progress({ noun: 'checkpoints', total });
      bar.show(checkpointsDone);
    },
    ...(wanted.threads !== undefined && { threads: wanted.threads }),
  };
  const report = await run(context, wanted, hooks)
    .finally(() => bar?.end())
    .catch((error: unknown) => {
      // The next run finds these there, and does not name them again.
      for (const line of formatNamed(named)) context.say(line);
      if (context.signal.aborted) context.say('What was stored stays; run the same command again to go on.');
      throw error;
    });
  await context.answer(report, () => formatReport(report, wanted));
  return report.skipped.length + report.lossy.length === 0 ? undefined : EXIT.partial;
}

async function run(context: Context, wanted: Transfer, hooks: Hooks): Promise<TransferReport> {
  const work = wanted.direction === 'import' ? runImport : runExport;
  const report = await work(context, wanted, hooks);
  const bytesAfter = measureFile(context, wanted.to);
  return bytesAfter === undefined ? report : { ...report, bytesAfter };
}

/** The source is opened first, so that nothing is made if it is the wrong one. */
async function runImport(context: Context, { from, to }: Transfer, hooks: Hooks): Promise<TransferReport> {
  const source = await openSource(context, from);
  try {
    const storage = await openThreadStorage(context, to, { create: true });
    try {
      return await importThreads(source, new SavestateSaver(storage), { ...hooks, storage });
    } finally {
      await storage.close();
    }
  } finally {
    await source.close();
  }
}

async function runExport(context: Context, { from, to, allowLossy }: Transfer, hooks: Hooks): Promise<TransferReport> {
  const storage = await openThreadStorage(context, from, { create: false });
  try {
    const { saver: target, close } = await openOfficialSaver(context, to);
    try {
      return await exportThreads(new SavestateSaver(storage), target, { ...hooks, storage, allowLossy });
    } finally {
      await close();
    }
  } finally {
    await storage.close();
  }
}
