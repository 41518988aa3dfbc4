import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import {
  callback,
  checkOptions,
  checkValue,
  either,
  filledString,
  flag,
  having,
  type OptionChecks,
  signal,
} from '../../core/options.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { encrypted, keysOf, keysOption } from '../../storage/encryption/encrypted.ts';
import { EncryptedStorage } from '../../storage/encryption/encrypted-storage.ts';
import type { Keyring } from '../../storage/encryption/keyring.ts';
import type { Keys } from '../../storage/encryption/keys.ts';
import { isSameStorage, parseStorageAddress } from '../../storage/open/address.ts';
import { openStorage } from '../../storage/open/open.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { settleReplacements } from '../engine/import-claim.ts';
import { eachSession } from '../engine/records.ts';
import { type CopyReport, StorageCopy } from '../transfer/copy-storage.ts';
import { SealedCheck } from '../transfer/sealed-check.ts';

/** A storage, or its address, as `open` takes it. */
export type StoragePlace = ChunkStorage | string;

/** How a backup is made. */
export type BackupOptions = {
  /** Also deletes in the backup what was deleted in the storage. Default: what was backed up once stays. */
  readonly mirror?: boolean | undefined;
  /** Of an encrypted storage: its records are checked with them. It is copied as it is, and without them only its chunks are checked. */
  readonly keys?: Keyring | Keys | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called for each checkpoint that is looked at. */
  readonly onCheckpoint?: (() => Promise<void>) | undefined;
};

/** What a backup did. If something could not be copied, `status` is `partial`, `problem` of its session says why, and the rest is there. */
export type BackupReport = {
  readonly status: 'complete' | 'partial';
  readonly sessions: readonly {
    readonly sessionId: string;
    /** New there. */
    readonly checkpoints: number;
    /** There already. */
    readonly present: number;
    readonly problem?: string;
  }[];
  readonly checkpoints: number;
  readonly present: number;
  /** Chunks that were moved. */
  readonly chunks: number;
  /** Deleted there, because they were deleted where they came from. */
  readonly deleted: number;
  readonly deletedSessions: readonly string[];
  /** Encrypted records that were copied now, and could not be checked without their keys. */
  readonly unchecked: number;
  /** What verify found damaged after a restore; and why there were records that the given keys do not open. */
  readonly findings: readonly string[];
};

const OPTIONS: OptionChecks<BackupOptions> = {
  mirror: flag,
  keys: keysOption,
  signal,
  onCheckpoint: callback,
};

/**
 * Brings a storage to another place: everything, as it was at one moment, each chunk checked and read back. Only what is new is moved;
 * a backup that was cut off goes on where it was. An encrypted storage is taken as it is;
 * `keys` only check it.
 */
export async function backup(from: StoragePlace, to: StoragePlace, options: BackupOptions = {}): Promise<BackupReport> {
  checkOptions(options, OPTIONS, 'backup()');
  return withStorages('backup()', { from, to }, async (source, target) => {
    await settleReplacements(managerOf(source).engine);
    return copyChecked(source, target, options);
  });
}

/**
 * Brings a backup into an empty storage and checks every byte there. One that was cut off goes on when it is repeated. Throws if the backup
 * is not whole, or if the storage holds something else.
 */
export async function restoreBackup(
  from: StoragePlace,
  to: StoragePlace,
  options: Omit<BackupOptions, 'mirror'> = {},
): Promise<BackupReport> {
  const { mirror: _, ...checks } = OPTIONS;
  checkOptions(options, checks, 'restoreBackup()');
  return withStorages('restoreBackup()', { from, to }, async (source, target) => {
    await checkEmpty(source, target);
    const report = await copyChecked(source, target, options);
    if (report.sessions.length === 0) throw new NotFoundError('There is nothing in this backup.');
    const findings = [
      ...report.findings,
      ...(await findDamage(target, report.findings.length === 0 ? options.keys : undefined)),
    ];
    return { ...report, findings, status: findings.length > 0 ? 'partial' : report.status };
  });
}

/** Copies all, and checks all that can be. */
async function copyChecked(
  source: ChunkStorage,
  target: ChunkStorage,
  { keys, ...options }: BackupOptions,
): Promise<BackupReport> {
  const sealed = new SealedCheck(keys && keysOf(keys));
  const report = toReport(await new StorageCopy(source, target, { ...options, check: true, sealed }).run());
  const { unchecked, problem } = sealed;
  if (problem === undefined) return { ...report, unchecked };
  return { ...report, unchecked, status: 'partial', findings: [`Not all could be checked. ${problem}`] };
}

/** A backup is not brought into a storage that is in use: what was deleted there since would come back. */
async function checkEmpty(source: ChunkStorage, target: ChunkStorage): Promise<void> {
  for await (const sessionId of eachSession(target)) {
    if ((await source.readRefs({ sessionId })).length === 0)
      throw new InvalidInputError(
        `The storage to restore into has a session "${sessionId}", which is not in the backup. Restore into a new storage, or bring single sessions with "savestate copy".`,
        { details: { sessionId } },
      );
  }
}

/** Not to be closed: the storage is the caller's. */
function managerOf(storage: ChunkStorage): CheckpointManager {
  return new CheckpointManager({ storage, unknownClasses: 'keep' });
}

/** What verify says of a storage; of a sealed one the backend's own checks, unless its keys are there. */
async function findDamage(storage: ChunkStorage, keys: BackupOptions['keys']): Promise<string[]> {
  const [first] = await storage.listSessions({ limit: 1 });
  const isSealed = first !== undefined && isSealedName(first);
  if (isSealed && keys === undefined) return storage.checkIntegrity();
  const opened = isSealed && keys !== undefined ? encrypted(storage, { keys }) : storage;
  const { findings } = await managerOf(opened).verify({ readData: true });
  return findings.map(({ subject, problem }) => `${subject}: ${problem}`);
}

/** The sum over all sessions. */
export function toReport({ sessions, deletedSessions }: CopyReport): BackupReport {
  const sum = (field: 'checkpoints' | 'present' | 'chunks' | 'deleted') =>
    sessions.reduce((total, each) => total + each[field], 0);
  return {
    status: sessions.every(({ problems }) => problems.length === 0) ? 'complete' : 'partial',
    sessions: sessions.map(({ sessionId, checkpoints, present, problems }) => ({
      sessionId,
      checkpoints,
      present,
      ...(problems.length > 0 && { problem: problems.join(' ') }),
    })),
    checkpoints: sum('checkpoints'),
    present: sum('present'),
    chunks: sum('chunks'),
    deleted: sum('deleted'),
    deletedSessions,
    unchecked: 0,
    findings: [],
  };
}

const PLACE = either('a storage or an address', filledString, having('commit', 'readReachable', 'listSessions'));

/** Runs a function on two storages. Those that are given by their addresses are opened for it, and closed; the first must be there. */
export async function withStorages<Result>(
  call: string,
  { from, to }: { readonly from: StoragePlace; readonly to: StoragePlace },
  run: (from: ChunkStorage, to: ChunkStorage) => Promise<Result>,
): Promise<Result> {
  checkValue(from, PLACE, `The first argument of ${call}`);
  checkValue(to, PLACE, `The second argument of ${call}`);
  const isSame =
    typeof from === 'string' && typeof to === 'string' ? isSameStorage(parse(from), parse(to)) : from === to;
  if (isSame) throw new InvalidInputError('The two storages are the same one.');
  if (from instanceof EncryptedStorage && !(to instanceof EncryptedStorage))
    throw new InvalidInputError(
      `${call} would write what is encrypted in the clear. Pass the storage inside encrypted(): it is copied as it is, without keys.`,
    );
  const source = typeof from === 'string' ? await openStorage(parse(from), { create: false }) : from;
  try {
    const target = typeof to === 'string' ? await openStorage(parse(to), { create: true }) : to;
    try {
      return await run(source, target);
    } finally {
      if (target !== to) await target.close();
    }
  } finally {
    if (source !== from) await source.close();
  }
}

function parse(address: string) {
  return parseStorageAddress(address, { folder: process.cwd() });
}
