import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { isProcessAlive, PROCESS_ID } from '../../storage/process-identity.ts';

/** The environment variable by which processes that code left behind are found again, also if they left their process group. */
export const RUN_MARK = 'SAVESTATE_CODE_RUN';

/** A process that keeps forking is met again in the next pass; one that cannot be killed must not keep us for ever. */
const MAX_PASSES = 50;
const BATCH = 32;

/** A mark for one more run in a working directory: the environment of every process of it holds this text. */
export function newMark(place: string): string {
  return `${place}:${PROCESS_ID}:${randomUUID()}`;
}

/** Kills every process of a run that is still there. Where there is no `/proc` it finds none. */
export async function killMarked(mark: string): Promise<void> {
  await killWhere((found) => found === mark);
}

/** Kills what runs for this working directory on behalf of processes that are gone. */
export async function killOrphans(place: string): Promise<void> {
  await killWhere((found) => {
    const [foundPlace, owner = ''] = found.split(':');
    return foundPlace === place && !isProcessAlive(owner);
  });
}

async function killWhere(isMeant: (mark: string) => boolean): Promise<void> {
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const pids = await findMarked(isMeant);
    if (pids.length === 0) return;
    for (const pid of pids) sendSignal(pid, 'SIGKILL');
  }
}

async function findMarked(isMeant: (mark: string) => boolean): Promise<number[]> {
  const names = await readdir('/proc').catch((): string[] => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const found: number[] = [];
  for (let at = 0; at < pids.length; at += BATCH) {
    const batch = pids.slice(at, at + BATCH).map(async (pid) => {
      const mark = await readMark(pid);
      if (mark !== undefined && isMeant(mark) && Number(pid) !== process.pid) found.push(Number(pid));
    });
    await Promise.all(batch);
  }
  return found;
}

async function readMark(pid: string): Promise<string | undefined> {
  // Processes of other people, and those that ended meanwhile, cannot be read and are none of ours.
  const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
  const line = environment.split('\0').find((entry) => entry.startsWith(`${RUN_MARK}=`));
  return line?.slice(RUN_MARK.length + 1);
}

/** Sends a signal to a process, or to a whole group if the id is negative; nothing happens if there is none. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone, which is what was wanted, or has become someone else's, which we must not touch.
  }
}
