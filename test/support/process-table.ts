import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';

type Row = { readonly pid: number; readonly parentPid: number; readonly state: string };

/** The children of a process that still run. */
export function runningChildren(parentPid: number): number[] {
  return runningProcesses()
    .filter((row) => row.parentPid === parentPid)
    .map(({ pid }) => pid);
}

/** Whether a process still runs. */
export function isProcessRunning(pid: number): boolean {
  return runningProcesses().some((row) => row.pid === pid);
}

/** A dead one whose parent has not asked about it yet does not count. */
function runningProcesses(): Row[] {
  const rows = existsSync('/proc/self/stat') ? rowsOfProc() : rowsOfPs();
  return rows.filter(({ state }) => !/^[ZX]/.test(state));
}

function rowsOfProc(): Row[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => rowOfProc(Number(name)));
}

function rowOfProc(pid: number): Row[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may hold anything.
    const [state = '', parentPid = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [{ pid, parentPid: Number(parentPid), state }];
  } catch {
    return []; // it ended since the listing
  }
}

function rowsOfPs(): Row[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,state='], { encoding: 'utf8' }).trim().split('\n');
  return lines.map((line) => {
    const [pid, parentPid, state = ''] = line.trim().split(/\s+/);
    return { pid: Number(pid), parentPid: Number(parentPid), state };
  });
}
