import { InvalidInputError, messageOf, UnsupportedError } from '../../../core/errors.ts';
import { isSealedName } from '../../../core/record/sealed-name.ts';
import type { BackupReport } from '../../../manager/backup/backup.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import type { Keys } from '../../../storage/encryption/keys.ts';
import type { StorageAddress } from '../../../storage/open/address.ts';
import { closing } from '../../base/closing.ts';
import { type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { formatFlags } from '../../base/command-input.ts';
import { type Address, checkApart, formatAddress, openAddress, parseAddress } from '../../place/address.ts';
import { findKeys } from '../../place/key-source.ts';
import { formatCount } from '../../terminal/format.ts';

type Watch = { readonly onCheckpoint: () => Promise<void>; readonly signal: AbortSignal };
/** What is encrypted is checked with these keys. */
type Checked = Watch & { readonly keys: Keys | undefined };

/** The address of a backup. */
export function readPlace({ folder, env }: Context, text: string | undefined): StorageAddress {
  const place = parseAddress(text ?? '', { folder, env });
  if (place.kind !== 'remote') return checkLasting(place);
  throw new UnsupportedError(`A backup is a local storage, and ${place.url} is a server. Use "savestate copy".`);
}

/** Refuses a target that would be gone when the command ends. */
export function checkLasting<Place extends Address>(place: Place): Place {
  if (place.kind !== 'memory') return place;
  throw new InvalidInputError(
    'memory: is gone when this command ends, and what was copied there with it. Name a folder (backups/), a file (backup.db) or another storage.',
  );
}

/** What is copied where, and the words for it. */
type Copied<Place = Address> = { readonly from: Place; readonly to: Place; readonly verb: string };

/** Copies one storage to another as it is, checked with the keys if they are here, and says what was done. The first must be there. */
export async function copyAsIs(
  context: Context,
  copied: Copied<StorageAddress>,
  copy: (from: ChunkStorage, to: ChunkStorage, watch: Checked) => Promise<BackupReport>,
): Promise<ExitCode | undefined> {
  checkApart(copied.from, copied.to);
  return closing(await openAddress(copied.from, { create: false }), async (source) =>
    closing(await openAddress(copied.to), async (target) => {
      const keys = await findKeysOf(context, source);
      const report = await watchCopy(context, source, (watch) => copy(source, target, { ...watch, keys }));
      return tellCopied(context, report, copied);
    }),
  );
}

/** The keys that hold here, if the storage is encrypted. It is copied without them, too: then its records are not checked. */
async function findKeysOf(context: Context, storage: ChunkStorage): Promise<Keys | undefined> {
  const [first] = await storage.listSessions({ limit: 1 });
  if (first === undefined || !isSealedName(first)) return undefined;
  try {
    const keys = (await findKeys(await context.place()))?.keys;
    await keys?.read();
    return keys;
  } catch (error) {
    context.say(`The keys could not be read: ${messageOf(error)}`);
    return undefined;
  }
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
  const { status, checkpoints, sessions, present, deleted, deletedSessions, unchecked, findings } = report;
  const [from, to] = [formatAddress(copied.from), formatAddress(copied.to)];
  await context.answer({ from, to, ...report }, () => {
    const notes = [
      ...(present === 0 ? [] : [`${present.toLocaleString('en')} were there already`]),
      ...(deleted === 0 ? [] : [`${formatCount(deleted, 'checkpoint')} deleted there`]),
      ...(deletedSessions.length === 0 ? [] : [`${formatCount(deletedSessions.length, 'session')} deleted there`]),
    ];
    const first = `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(sessions.length, 'session')} ${verb} ${describePlace(copied.to)}`;
    const problems = [...problemsOf(report), ...findings].map((problem) => `  ${problem}\n`);
    const rest =
      unchecked === 0
        ? ''
        : `${formatCount(unchecked, 'encrypted record')} could not be checked without the keys. Where they are: savestate verify --read-data${formatFlags({ storage: to })}\n`;
    return `${[first, ...notes].join('; ')}.\n${rest}${problems.join('')}`;
  });
  return status === 'partial' ? EXIT.partial : undefined;
}

/** What kind of storage is there, in words: how an address is written decides it, and that is easily overlooked. */
function describePlace(place: Address): string {
  if (place.kind === 'sqlite') return `the SQLite file ${place.path}`;
  return place.kind === 'file' ? `the folder ${place.path}` : formatAddress(place);
}
