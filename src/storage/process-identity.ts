import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** What is left of a process whose parent has not noticed its end. */
const ENDED_STATES = 'ZX';
const MAX_HOST_CHARS = 64;

/** This process: its number, and its start time in clock ticks, because numbers are used again (0 if unknown). */
export const PROCESS_ID = `${process.pid}-${parseStat(read('/proc/self/stat')).startTicks}`;

/** The machine as far as its process numbers mean the same: the boot tells hosts of one name apart, the namespace containers of one host. */
export const MACHINE = [
  hostname()
    .slice(0, MAX_HOST_CHARS)
    .replaceAll(/[:/\s]/g, '-'),
  readNamespace(),
  read('/proc/sys/kernel/random/boot_id').slice(0, 8),
]
  .filter((part) => part !== '')
  .join('-');

/** Whether a process of this machine is there. Where start times are unknown a number that is in use counts as alive: waiting is safer than going ahead. */
export function isProcessAlive(processId: string): boolean {
  const [pid = 0, startTicks = 0] = processId.split('-').map(Number);
  if (!isPidTaken(pid)) return false;
  const found = parseStat(read(`/proc/${pid}/stat`));
  if (ENDED_STATES.includes(found.state || '-')) return false;
  return found.startTicks === 0 || startTicks === 0 || found.startTicks === startTicks;
}

function isPidTaken(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'; // else it is there, and somebody else's
  }
}

/** The third and the 22nd field of proc_pid_stat(5); the second may hold blanks and parentheses, so counting starts after it. */
function parseStat(stat: string): { readonly state: string; readonly startTicks: number } {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', startTicks: Number(fields[19] ?? 0) };
}

function readNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replaceAll(/\D/g, '');
  } catch {
    return ''; // not Linux
  }
}

/** Empty where there is no such file: elsewhere than on Linux, or the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
