import type { BigIntStats } from 'node:fs';
import { type FoundPath, stampOf } from './scan-folder.ts';
import type { WorkspaceEntry, WorkspaceFile, WorkspaceState } from './workspace-state.ts';

/** A file as it was read, and what the system said of it then. */
export type KnownFile = {
  readonly stamp: string;
  readonly isSettled: boolean;
  readonly entry: WorkspaceFile;
  /** The option of that name when it was captured. */
  readonly keepSecrets: boolean;
};

/** What was read, when, and how. */
type Reading = { readonly stats: BigIntStats; readonly readAtMs: number; readonly keepSecrets: boolean };

/**
 * A file that was changed so shortly before it was read may be changed again without its times showing it: clocks of file systems tick
 * slowly, some every two seconds.
 */
const SETTLE_MS = 2500;

/** What is remembered of the last capture of one folder. */
export class WorkspaceCache {
  readonly #now: () => number;
  #files: ReadonlyMap<string, KnownFile> = new Map();
  #last: WorkspaceState | undefined;

  /** `now` is the time in milliseconds, as file systems tell it. */
  constructor({ now = Date.now }: { readonly now?: () => number } = {}) {
    this.#now = now;
  }

  get now(): number {
    return this.#now();
  }

  /** What is known of a file, if the system says that it is what it was when it was read. */
  find({ path, stats }: Pick<FoundPath, 'path' | 'stats'>): KnownFile | undefined {
    const known = this.#files.get(path);
    return known?.isSettled === true && known.stamp === stampOf(stats) ? known : undefined;
  }

  /** What is to be remembered of a file that was read, with the entry of the last capture if it is the same. */
  know(path: string, entry: WorkspaceFile, { stats, readAtMs, keepSecrets }: Reading): KnownFile {
    const before = this.#files.get(path)?.entry;
    const kept = before !== undefined && isSameFile(before, entry) ? before : Object.freeze(entry);
    const newestMs = Math.max(Number(stats.mtimeMs), Number(stats.ctimeMs));
    return { stamp: stampOf(stats), isSettled: newestMs + SETTLE_MS < readAtMs, entry: kept, keepSecrets };
  }

  /** The entry of the last capture if it is the same, else this one. */
  reuse(path: string, entry: WorkspaceEntry): WorkspaceEntry {
    const before = this.#last?.entries[path];
    if (before === undefined || before.kind !== entry.kind) return Object.freeze(entry);
    return isSameFields(before, entry) ? before : Object.freeze(entry);
  }

  /** Ends a capture: answers the state of the last one if nothing changed. */
  settle(state: WorkspaceState, files: ReadonlyMap<string, KnownFile>): WorkspaceState {
    this.#files = files;
    if (this.#last !== undefined && isSameState(this.#last, state)) return this.#last;
    for (const skipped of state.skipped) Object.freeze(skipped);
    Object.freeze(state.entries);
    Object.freeze(state.skipped);
    const ignored = isSameList(this.#last?.ignored ?? [], state.ignored) ? this.#last?.ignored : undefined;
    this.#last = Object.freeze({ ...state, ignored: ignored ?? Object.freeze([...state.ignored]) });
    return this.#last;
  }
}

function isSameFile(a: WorkspaceFile, b: WorkspaceFile): boolean {
  return a.digest === b.digest && a.mode === b.mode && typeof a.content === typeof b.content;
}

function isSameFields(a: object, b: object): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at]);
}

function isSameState(a: WorkspaceState, b: WorkspaceState): boolean {
  if (!isSameList(a.ignored, b.ignored) || JSON.stringify(a.skipped) !== JSON.stringify(b.skipped)) return false;
  const paths = Object.keys(a.entries);
  return isSameList(paths, Object.keys(b.entries)) && paths.every((path) => a.entries[path] === b.entries[path]);
}
