import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { errnoOf } from './open-folder.ts';
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

/** Files up to this size are read at once; larger ones let others run meanwhile. */
const AT_ONCE_BYTES = 256 * 1024;
const PIECE_BYTES = 256 * 1024;

/** A file that someone is writing to is read again; so often, and no more. */
const MAX_TRIES = 4;

/** Reads a file so that all of it is of one moment; otherwise returns why that is not possible. */
export async function readWholeFile(
  { folder, name, stats }: Pick<FoundPath, 'folder' | 'name' | 'stats'>,
  { keepBytes }: { keepBytes: (sizeBytes: number) => boolean },
): Promise<ReadFile | UnreadReason> {
  const path = folder.at(name);
  const isSmall = stats.size <= AT_ONCE_BYTES;
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const file = isSmall ? readAtOnce(path, keepBytes) : await readInPieces(path, keepBytes);
      if (file !== undefined) return file;
    }
    return 'changing';
  } catch (error) {
    const problem = errnoOf(error);
    return problem === 'ENOENT' ? 'gone' : problem === 'ELOOP' ? 'changing' : 'unreadable';
  }
}

type KeepBytes = (sizeBytes: number) => boolean;

function readAtOnce(path: string, keepBytes: KeepBytes): ReadFile | undefined {
  const file = openSync(path, OPEN_FLAGS);
  try {
    const before = fstatSync(file, { bigint: true });
    if (!before.isFile() || before.size > AT_ONCE_BYTES) return undefined;
    // One byte more than it should have, so that growth is seen.
    const buffer = Buffer.allocUnsafe(Number(before.size) + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null);
    if (stampOf(fstatSync(file, { bigint: true })) !== stampOf(before) || length !== Number(before.size))
      return undefined;
    return describe(before, Buffer.from(buffer.subarray(0, length)), keepBytes);
  } finally {
    closeSync(file);
  }
}

function describe(stats: BigIntStats, bytes: Buffer, keepBytes: KeepBytes): ReadFile {
  const digest = createHash('sha256').update(bytes).digest('hex');
  const known = { stats, sizeBytes: bytes.length, digest };
  return keepBytes(bytes.length) ? { ...known, bytes } : known;
}

async function readInPieces(path: string, keepBytes: KeepBytes): Promise<ReadFile | undefined> {
  const file = await open(path, OPEN_FLAGS);
  try {
    const before = await file.stat({ bigint: true });
    if (!before.isFile()) return undefined;
    const sizeBytes = Number(before.size);
    const isKept = keepBytes(sizeBytes);
    const hash = createHash('sha256');
    const kept: Buffer[] = [];
    let length = 0;
    for (;;) {
      const piece = Buffer.allocUnsafe(PIECE_BYTES);
      const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, null);
      if (bytesRead === 0) break;
      length += bytesRead;
      if (length > sizeBytes) return undefined;
      hash.update(piece.subarray(0, bytesRead));
      if (isKept) kept.push(piece.subarray(0, bytesRead));
    }
    if (length !== sizeBytes || stampOf(await file.stat({ bigint: true })) !== stampOf(before)) return undefined;
    const known = { stats: before, sizeBytes, digest: hash.digest('hex') };
    return isKept ? { ...known, bytes: Buffer.concat(kept) } : known;
  } finally {
    await file.close();
  }
}
