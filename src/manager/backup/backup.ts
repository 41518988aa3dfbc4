import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { callback, checkOptions, flag, type OptionChecks, signal } from '../../core/options.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { settleReplacements } from '../engine/import-claim.ts';
import { eachSession } from '../engine/records.ts';
import { type CopyReport, StorageCopy } from '../transfer/copy-storage.ts';
import { type StoragePlace, withStorages } from './places.ts';

/** How a backup is made. */
export type BackupOptions = {
  /** Also deletes in the backup what was deleted in the storage. Default: what was backed up once stays. */
  readonly mirror?: boolean | undefined;
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
  /** What verify found damaged after a restore. */
  readonly findings: readonly string[];
};

const OPTIONS: OptionChecks<BackupOptions> = { mirror: flag, signal, onCheckpoint: callback };

/**
 * Brings a storage to another place: everything, as it was at one moment, each chunk checked and read back. Only what is new is moved;
 * a backup that was cut off goes on where it was. An encrypted storage is taken as it is, without its keys.
 */
export async function backup(from: StoragePlace, to: StoragePlace, options: BackupOptions = {}): Promise<BackupReport> {
  checkOptions(options, OPTIONS, 'backup()');
  return withStorages('backup()', { from, to }, async (source, target) => {
    await settleReplacements(managerOf(source).engine);
    return toReport(await new StorageCopy(source, target, { ...options, check: true }).run());
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
    const report = toReport(await new StorageCopy(source, target, { ...options, check: true }).run());
    if (report.sessions.length === 0) throw new NotFoundError('There is nothing in this backup.');
    const findings = await findDamage(target);
    return { ...report, findings, status: findings.length > 0 ? 'partial' : report.status };
  });
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

/** What verify says of a storage; of a sealed one the backend's own checks, for the rest needs its keys. */
async function findDamage(storage: ChunkStorage): Promise<string[]> {
  const [first] = await storage.listSessions({ limit: 1 });
  if (first !== undefined && isSealedName(first)) return storage.checkIntegrity();
  const { findings } = await managerOf(storage).verify({ readData: true });
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
    findings: [],
  };
}
