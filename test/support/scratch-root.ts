import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

const MEMORY = '/dev/shm';
const TMPFS_TYPE = 0x01021994;
/** More than all tests together keep there. */
const ENOUGH_BYTES = 2 ** 31;

/**
 * Where storages go that are not about disks: a file system in memory if this machine has one with space, because most of the time of small
 * commits goes into the disk's journal. It is a real file system, and syncs are real calls. Tests about crashes and syncs stay on the disk.
 */
export const SCRATCH_ROOT = hasMemoryFileSystem() ? MEMORY : tmpdir();

function hasMemoryFileSystem(): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY);
    return type === TMPFS_TYPE && bavail * bsize >= ENOUGH_BYTES;
  } catch {
    return false; // not on this system
  }
}
