import { UnsupportedError } from '../../../core/errors.ts';
import type { BackupReport } from '../../../manager/backup/backup.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import type { StorageAddress } from '../../../storage/open/address.ts';
import { closing } from '../../base/closing.ts';
import { type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { type Address, checkApart, formatAddress, openAddress, parseAddress } from '../../place/address.ts';
import { formatCount } from '../../terminal/format.ts';

type Watch = { readonly onCheckpoint: () => Promise<void>; readonly signal: AbortSignal };

/** The address of a backup. */
export function readPlace({ folder, env }: Context, text: string | undefined): StorageAddress {
  const place = parseAddress(text ?? '', { folder, env });
  if (place.kind !== 'remote') return place;
  throw new UnsupportedError(`A backup is a local storage, and ${place.url} is a server. Use "savestate copy".`);
}

/** What is copied where, and the words for it. */
type Copied<Place = Address> = { readonly from: Place; readonly to: Place; readonly verb: string };

/** Copies one storage to another without looking for keys, and says what was done. The first must be there. */
export async function copyAsIs(
  context: Context,
  copied: Copied<StorageAddress>,
  copy: (from: ChunkStorage, to: ChunkStorage, watch: Watch) => Promise<BackupReport>,
): Promise<ExitCode | undefined> {
  checkApart(copied.from, copied.to);
  return closing(await openAddress(copied.from, { create: false }), async (source) =>
    closing(await openAddress(copied.to), async (target) => {
      const report = await watchCopy(context, source, (watch) => copy(source, target, watch));
      return tellCopied(context, report, copied);
    }),
  );
}

/** Shows how far a copy is, and lets Ctrl-C stop it. */
export async function watchCopy<Report>(
  context: Context,
  from: ChunkStorage,
  copy: (watch: Watch) => Promise<Report>,
): Promise<Report> {
  const total = context.globals.session === undefined ? (await from.stats()).checkpoints : undefined;
  let done = 0;
  return context.showing({ noun: 'checkpoints', total }, (show) => {
    const onCheckpoint = async () => {
      await context.checkStop();
      show(++done);
    };
    return copy({ onCheckpoint, signal: context.signal });
  });
}

/** The sessions that could not be copied, and why. */
export function problemsOf({ sessions }: BackupReport): string[] {
  return sessions.flatMap(({ sessionId, problem }) => (problem === undefined ? [] : [`${sessionId}: ${problem}`]));
}

/** Says what was copied, and what could not be. */
export async function tellCopied(
  context: Context,
  report: BackupReport,
  { verb, ...copied }: Copied,
): Promise<ExitCode | undefined> {
  const { status, checkpoints, sessions, present, deleted, deletedSessions, findings } = report;
  const [from, to] = [formatAddress(copied.from), formatAddress(copied.to)];
  await context.answer({ from, to, ...report }, () => {
    const notes = [
      ...(present === 0 ? [] : [`${present} were there already`]),
      ...(deleted === 0 ? [] : [`${formatCount(deleted, 'checkpoint')} deleted there`]),
      ...(deletedSessions.length === 0 ? [] : [`${formatCount(deletedSessions.length, 'session')} deleted there`]),
    ];
    const first = `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(sessions.length, 'session')} ${verb} ${to}`;
    const problems = [...problemsOf(report), ...findings].map((problem) => `  ${problem}\n`);
    return `${[first, ...notes].join('; ')}.\n${problems.join('')}`;
  });
  return status === 'partial' ? EXIT.partial : undefined;
}
