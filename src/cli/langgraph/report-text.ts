import type { TransferNote, TransferReport } from '../../adapter/langgraph/index.ts';
import type { Arguments } from './arguments.ts';
import { showPlace } from './places.ts';

/** Notes that are printed; more are counted, and all are in the JSON. */
const MAX_NOTES = 10;

const UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];
const UNIT_STEP = 1_000;

/** What an import or export did, in plain words. */
export function formatReport(report: TransferReport, args: Arguments): string {
  const { threads, checkpoints, writes, present, skipped, lossy } = report;
  const verb = args.command === 'import' ? 'Imported' : 'Exported';
  const lines = [
    `${verb} ${count(checkpoints, 'checkpoint')} and ${count(writes, 'write')} of ${count(threads, 'thread')}.`,
    ...(present > 0 ? [formatPresent(present, args)] : []),
    ...formatBytes(report, args),
    ...formatNamed({ skipped, lossy }),
  ];
  return `${lines.join('\n')}\n`;
}

/** What a report names, or would have named if the transfer had come to its end. */
export function formatNamed({ skipped, lossy }: Pick<TransferReport, 'skipped' | 'lossy'>): string[] {
  return [...formatNotes('not stored', skipped), ...formatNotes('stored, but not whole', lossy)];
}

/** What was lost is seen when a checkpoint is read from the source, and those that are there are not read again. */
function formatPresent(present: number, { command }: Arguments): string {
  const there = `${count(present, 'checkpoint')} ${present === 1 ? 'was' : 'were'} there already`;
  return command === 'import' ? `${there}; what is not whole of them is not named again.` : `${there}.`;
}

function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

function formatBytes({ bytesBefore, bytesAfter }: TransferReport, { from, to }: Arguments): string[] {
  if (bytesBefore === undefined || bytesAfter === undefined) return [];
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

/** A size as people read it: `1.5 MB`. */
export function formatSize(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= UNIT_STEP && unit < UNITS.length - 1) {
    size /= UNIT_STEP;
    unit++;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${UNITS[unit]}`;
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
