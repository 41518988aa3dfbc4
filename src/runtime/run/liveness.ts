import { randomUUID } from 'node:crypto';
import { readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Runs of this process that are under way, by the last part of their names. */
const running = new Set<string>();

/** The machine as far as its process ids mean the same: the namespace tells containers apart that have one host name. */
const MACHINE = `${hostname()}${readNamespace()}`.replaceAll('/', '-');

function readNamespace(): string {
  try {
    return `-${readlinkSync('/proc/self/ns/pid').replaceAll(/\D/g, '')}`;
  } catch {
    return ''; // not Linux
  }
}

/** Names a run for others: `machine/process/run`, and what its owner is called, if anything. It counts as alive until `end` is called. */
export function beginOwner(label?: string): { readonly owner: string; readonly end: () => void } {
  const name = randomUUID().slice(0, 8);
  running.add(name);
  const owner = [MACHINE, process.pid, name, ...(label === undefined ? [] : [label])].join('/');
  return { owner, end: () => void running.delete(name) };
}

/** Whether the run of this name is over for certain: its process is on this machine, and is not there any more. */
export function isGone(owner: string | undefined): boolean {
  const [machine, pid, name] = owner?.split('/') ?? [];
  if (machine !== MACHINE || pid === undefined || name === undefined) return false;
  return Number(pid) === process.pid ? !running.has(name) : !isAlive(Number(pid));
}

/** Which process has the run of this name, for people. */
export function describeOwner(owner: unknown): string {
  const [machine, pid, name, ...label] = typeof owner === 'string' ? owner.split('/') : [];
  if (pid === undefined || name === undefined) return typeof owner === 'string' ? `"${owner}"` : 'another process';
  const place = machine === MACHINE ? `process ${pid}` : `process ${pid} of ${machine}`;
  return label.length === 0 ? place : `"${label.join('/')}" (${place})`;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // it is there, and somebody else's
  }
}
