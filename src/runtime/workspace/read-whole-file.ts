import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { codeOf } from '../../core/errors.ts';
import { type FoundPath, stampOf } from './scan-folder.ts';

/** What was read of a file. `bytes` is absent where only the digest was asked for. */
export type ReadFile = {
  readonly stats: BigIntStats;
  readonly sizeBytes: number;
  readonly digest: string;
  readonly bytes?: Buffer;
};

/** Why a file was not read: it does not hold still, it cannot be opened, or it is not there any more. */
export type UnreadReason = 'changing' | 'unreadable' | 'gone';

/** Never through a link, and never waiting for the other end of a pipe. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Files up to this size are read at once; between such pieces of larger ones others run. */
const PIECE_BYTES = 256 * 1024;

/** A file that someone is writing to is read again; so often, and no more. */
const MAX_TRIES = 4;

/** Reads a file so that all of it is of one moment; otherwise returns why that is not possible. */
export async function readWholeFile(
  { folder, name }: Pick<FoundPath, 'folder' | 'name'>,
  { keepBytes }: { keepBytes: (sizeBytes: number) => boolean },
): Promise<ReadFile | UnreadReason> {
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const file = await readOnce(folder.at(name), keepBytes);
      if (file !== undefined) return file;
    }
    return 'changing';
  } catch (error) {
    const problem = codeOf(error);
    return problem === 'ENOENT' ? 'gone' : problem === 'ELOOP' ? 'changing' : 'unreadable';
  }
}

async function readOnce(path: string, keepBytes: (sizeBytes: number) => boolean): Promise<ReadFile | undefined> {
  const file = openSync(path, OPEN_FLAGS);
  try {
    const stats = fstatSync(file, { bigint: true });
    if (!stats.isFile()) return undefined;
    const sizeBytes = Number(stats.size);
    const isKept = keepBytes(sizeBytes);
    const hash = createHash('sha256');
    const kept: Buffer[] = [];
    let length = 0;
    for (let read = -1; read !== 0 && length <= sizeBytes; length += read) {
      if (length > 0 && length < sizeBytes) await setImmediate();
      // One byte more than it should have, so that growth is seen.
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, sizeBytes - length + 1));
      read = readSync(file, piece, 0, piece.length, null);
      hash.update(piece.subarray(0, read));
      if (isKept) kept.push(piece.subarray(0, read));
    }
    if (length !== sizeBytes || stampOf(fstatSync(file, { bigint: true })) !== stampOf(stats)) return undefined;
    return { stats, sizeBytes, digest: hash.digest('hex'), ...(isKept && { bytes: Buffer.concat(kept) }) };
  } finally {
    closeSync(file);
  }
}
