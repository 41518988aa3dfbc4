import { exportThreads, importThreads, SavestateSaver, type TransferReport } from '../../adapter/langgraph/index.ts';
import type { TransferNote, TransferOptions } from '../../adapter/langgraph/transfer/thread-transfer.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { closing } from '../base/closing.ts';
import { type Context, EXIT, type ExitCode } from '../base/command.ts';
import { formatCount, formatSize } from '../terminal/format.ts';
import type { ProgressBar } from '../terminal/progress-bar.ts';
import { measureFile, openOfficialSaver, openSource, openThreadStorage } from './places.ts';

/** What a person asked for. */
export type Transfer = {
  readonly direction: 'import' | 'export';
  readonly from: string;
  readonly to: string;
  readonly threads?: readonly string[];
  readonly allowLossy: boolean;
};

/** A report with the sizes of the files that all threads came from and went to. */
type MeasuredReport = TransferReport & { readonly bytesBefore?: number; readonly bytesAfter?: number };

/** Notes that are printed; more are counted, and all are in the JSON. */
const MAX_NOTES = 10;

/** Smaller databases say nothing about how much less room threads take. */
const MIN_TELLING_BYTES = 1_000_000;

/** Moves threads and reports what became of them. */
export async function transfer(context: Context, wanted: Transfer): Promise<ExitCode | undefined> {
  const named: { skipped: TransferNote[]; lossy: TransferNote[] } = { skipped: [], lossy: [] };
  let bar: ProgressBar | undefined;
  const options: TransferOptions = {
    signal: context.signal,
    onNote: (note, list) => named[list].push(note),
    onProgress: ({ checkpoints: total, checkpointsDone }) => {
      bar ??= context.progress({ noun: 'checkpoints', total });
      bar.show(checkpointsDone);
    },
    ...(wanted.threads !== undefined && { threads: wanted.threads }),
  };
  const done = await (wanted.direction === 'import' ? runImport : runExport)(context, wanted, options)
    .finally(() => bar?.end())
    .catch((error: unknown) => {
      // The next run finds these there, and does not name them again.
      for (const line of formatNamed(named)) context.say(line);
      if (context.signal.aborted) context.say('Stored threads are kept; run the same command again to continue.');
      throw error;
    });
  const report = measure(context, wanted, done);
  await context.answer(report, () => formatReport(report, wanted));
  return report.skipped.length + report.lossy.length === 0 ? undefined : EXIT.partial;
}

/** The source is opened first, so that nothing is made if it is the wrong one. */
async function runImport(context: Context, { from, to }: Transfer, options: TransferOptions): Promise<TransferReport> {
  return closing(await openSource(context, from), async (source) =>
    closing(await openThreadStorage(context, to, { create: true }), (storage) =>
      importThreads(source, new SavestateSaver(storage), options),
    ),
  );
}

async function runExport(context: Context, wanted: Transfer, options: TransferOptions): Promise<TransferReport> {
  const { from, to, allowLossy } = wanted;
  return closing(await openThreadStorage(context, from, { create: false }), async (storage) =>
    closing(await openOfficialSaver(context, to), ({ saver }) =>
      exportThreads(new SavestateSaver(storage), saver, { ...options, allowLossy }),
    ),
  );
}

function measure(context: Context, { from, to, threads }: Transfer, report: TransferReport): MeasuredReport {
  const bytesBefore = threads === undefined ? measureFile(context, from) : undefined;
  return { ...report, ...withoutUndefined({ bytesBefore, bytesAfter: measureFile(context, to) }) };
}

/** What an import or export did, in plain words. */
function formatReport(report: MeasuredReport, wanted: Transfer): string {
  const { threads, checkpoints, writes, present } = report;
  const verb = wanted.direction === 'import' ? 'Imported' : 'Exported';
  const there = `${formatCount(present, 'checkpoint')} ${present === 1 ? 'was' : 'were'} there already; their losses are not listed again.`;
  const lines = [
    `${verb} ${formatCount(checkpoints, 'checkpoint')} and ${formatCount(writes, 'write')} of ${formatCount(threads, 'thread')}.`,
    ...(present > 0 ? [there] : []),
    ...formatBytes(report, wanted),
    ...formatNamed(report),
  ];
  return `${lines.join('\n')}\n`;
}

function formatBytes({ bytesBefore, bytesAfter }: MeasuredReport, { from, to }: Transfer): string[] {
  if (bytesBefore === undefined || bytesAfter === undefined || bytesBefore < MIN_TELLING_BYTES) return [];
  const factor = bytesBefore / Math.max(1, bytesAfter);
  const change = factor >= 1 ? `${formatFactor(factor)} times less` : `${formatFactor(1 / factor)} times more`;
  return [`Before  ${formatSize(bytesBefore)} in ${from}`, `After   ${formatSize(bytesAfter)} in ${to}: ${change}`];
}

function formatFactor(factor: number): string {
  return factor < 10 ? factor.toFixed(1) : String(Math.round(factor));
}

/** What a report names, or would have named if the transfer had come to its end. */
function formatNamed({ skipped, lossy }: Pick<TransferReport, 'skipped' | 'lossy'>): string[] {
  return [...formatNotes('not stored', skipped), ...formatNotes('stored, but incomplete', lossy)];
}

function formatNotes(title: string, notes: readonly TransferNote[]): string[] {
  if (notes.length === 0) return [];
  const more = notes.length - MAX_NOTES;
  return [
    '',
    `${notes.length} ${title}:`,
    ...notes.slice(0, MAX_NOTES).map(formatNote),
    ...(more > 0 ? [`  and ${more} more; --json lists them all`] : []),
  ];
}

function formatNote({ threadId, namespace, checkpointId, channel, path, reason }: TransferNote): string {
  const place = namespace === '' ? threadId : `${threadId}/${namespace}`;
  const part = channel === undefined ? '' : `, channel ${channel}${path === undefined ? '' : ` at ${path}`}`;
  return `  ${place} ${checkpointId}${part}: ${reason}`;
}
