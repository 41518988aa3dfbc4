import type { TransferReport } from '../../adapter/langgraph/index.ts';
import type { TransferNote } from '../../adapter/langgraph/transfer/transfer-report.ts';
import { formatCount, formatSize } from '../terminal/format.ts';
import { showPlace } from './places.ts';
import type { Transfer } from './transfer.ts';

/** Notes that are printed; more are counted, and all are in the JSON. */
const MAX_NOTES = 10;

/** Smaller databases say nothing about how much less room threads take. */
const MIN_TELLING_BYTES = 1_000_000;

/** What an import or export did, in plain words. */
export function formatReport(report: TransferReport, wanted: Transfer): string {
  const { threads, checkpoints, writes, present, skipped, lossy } = report;
  const verb = wanted.direction === 'import' ? 'Imported' : 'Exported';
  const lines = [
    `${verb} ${formatCount(checkpoints, 'checkpoint')} and ${formatCount(writes, 'write')} of ${formatCount(threads, 'thread')}.`,
    ...(present > 0 ? [formatPresent(present, wanted)] : []),
    ...formatBytes(report, wanted),
    ...formatNamed({ skipped, lossy }),
  ];
  return `${lines.join('\n')}\n`;
}

/** What a report names, or would have named if the transfer had come to its end. */
export function formatNamed({ skipped, lossy }: Pick<TransferReport, 'skipped' | 'lossy'>): string[] {
  return [...formatNotes('not stored', skipped), ...formatNotes('stored, but not whole', lossy)];
}

/** What was lost is seen when a checkpoint is read from the source, and those that are there are not read again. */
function formatPresent(present: number, { direction }: Transfer): string {
  const there = `${formatCount(present, 'checkpoint')} ${present === 1 ? 'was' : 'were'} there already`;
  return direction === 'import' ? `${there}; what is not whole of them is not named again.` : `${there}.`;
}

function formatBytes({ bytesBefore, bytesAfter }: TransferReport, { from, to }: Transfer): string[] {
  if (bytesBefore === undefined || bytesAfter === undefined || bytesBefore < MIN_TELLING_BYTES) return [];
  const factor = bytesBefore / Math.max(1, bytesAfter);
  const change = factor >= 1 ? `${formatFactor(factor)} times less` : `${formatFactor(1 / factor)} times more`;
  return [
    `Before  ${formatSize(bytesBefore)} in ${showPlace(from)}`,
    `After   ${formatSize(bytesAfter)} in ${showPlace(to)}: ${change}`,
  ];
}

function formatFactor(factor: number): string {
  return factor < 10 ? factor.toFixed(1) : String(Math.round(factor));
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
