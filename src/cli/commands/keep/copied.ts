import { UnsupportedError } from '../../../core/errors.ts';
import type { BackupReport } from '../../../manager/backup/backup.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import type { StorageAddress } from '../../../storage/open/address.ts';
import type { Context } from '../../base/context.ts';
import { EXIT, type ExitCode } from '../../base/exit-code.ts';
import { checkApart, formatAddress, openAddress, parseAddress } from '../../place/address.ts';
import { formatCount } from '../../terminal/format.ts';

type Watch = { readonly onCheckpoint: () => Promise<void>; readonly signal: AbortSignal };

/** The address of a backup. */
export function readPlace({ folder, env }: Context, text: string | undefined): StorageAddress {
  const place = parseAddress(text ?? '', { folder, env });
  if (place.kind !== 'remote') return place;
  throw new UnsupportedError(`A backup is a local storage, and ${place.url} is a server. Use "savestate copy".`);
}

/** Copies one storage to another without looking for keys, and says what was done. The first must be there. */
export async function copyAsIs(
  context: Context,
  { from, to, verb }: { readonly from: StorageAddress; readonly to: StorageAddress; readonly verb: string },
  copy: (from: ChunkStorage, to: ChunkStorage, watch: Watch) => Promise<BackupReport>,
): Promise<ExitCode | undefined> {
  const shown = { from: formatAddress(from), to: formatAddress(to) };
  checkApart(from, to);
  const source = await openAddress(from, { create: false });
  try {
    const target = await openAddress(to);
    try {
      const report = await watchCopy(context, source, (watch) => copy(source, target, watch));
      return await tellCopied(context, report, { verb, ...shown });
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** Shows how far a copy is, and lets Ctrl-C stop it. */
export async function watchCopy<Report>(
  context: Context,
  from: ChunkStorage,
  copy: (watch: Watch) => Promise<Report>,
): Promise<Report> {
  const total = context.globals.session === undefined ? (await from.stats()).checkpoints : undefined;
  const bar = context.progress({ noun: 'checkpoints', total });
  let done = 0;
  const onCheckpoint = async () => {
    await context.checkStop();
    bar.show(++done);
  };
  try {
    return await copy({ onCheckpoint, signal: context.signal });
  } finally {
    bar.end();
  }
}

/** Says what was copied, and what could not be. */
export async function tellCopied(
  context: Context,
  report: BackupReport,
  { verb, ...place }: { readonly verb: string; readonly from: string; readonly to: string },
): Promise<ExitCode | undefined> {
  const { status, checkpoints, sessions, present, deleted, deletedSessions, findings } = report;
  const broken = sessions.flatMap(({ sessionId, problem }) =>
    problem === undefined ? [] : [`${sessionId}: ${problem}`],
  );
  const problems = [...broken, ...findings];
  await context.answer({ ...place, ...report }, () => {
    const notes = [
      ...(present === 0 ? [] : [`${present} were there already`]),
      ...(deleted === 0 ? [] : [`${formatCount(deleted, 'checkpoint')} deleted there`]),
      ...(deletedSessions.length === 0 ? [] : [`${formatCount(deletedSessions.length, 'session')} deleted there`]),
    ];
    const first = `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(sessions.length, 'session')} ${verb} ${place.to}`;
    return `${[first, ...notes].join('; ')}.\n${problems.map((problem) => `  ${problem}\n`).join('')}`;
  });
  return status === 'partial' ? EXIT.partial : undefined;
}
