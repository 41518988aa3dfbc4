import type { BigIntStats } from 'node:fs';
import { type FoundPath, stampOf } from './scan-folder.ts';
import type { WorkspaceEntry, WorkspaceFile, WorkspaceState } from './workspace-state.ts';

/** A file as it was read, what the system said of it then, and how it was kept. */
export type KnownFile = {
  readonly entry: WorkspaceFile;
  readonly stamp: string;
  readonly isSettled: boolean;
  readonly keepSecrets: boolean;
};

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

  /** What is to be remembered of a file that was read. */
  know(path: string, entry: WorkspaceFile, { stats, readAtMs, keepSecrets }: Reading): KnownFile {
    const newestMs = Math.max(Number(stats.mtimeMs), Number(stats.ctimeMs));
    const isSettled = newestMs + SETTLE_MS < readAtMs;
    return { entry: this.reuse(path, entry), stamp: stampOf(stats), isSettled, keepSecrets };
  }

  /** The entry of the last capture if it is the same, else this one. */
  reuse<Entry extends WorkspaceEntry>(path: string, entry: Entry): Entry {
    const before = this.#last?.entries[path];
    return before !== undefined && markOf(before) === markOf(entry) ? (before as Entry) : Object.freeze(entry);
  }

  /** Ends a capture: answers the state of the last one if nothing changed. */
  settle(state: WorkspaceState, files: ReadonlyMap<string, KnownFile>): WorkspaceState {
    this.#files = files;
    const last = this.#last;
    if (last !== undefined && isSameState(last, state)) return last;
    for (const skipped of state.skipped) Object.freeze(skipped);
    for (const part of [state.entries, state.skipped]) Object.freeze(part);
    const ignored = last !== undefined && isSame(last.ignored, state.ignored) ? last.ignored : [...state.ignored];
    this.#last = Object.freeze({ ...state, ignored: Object.freeze(ignored) });
    return this.#last;
  }
}

function isSameState(a: WorkspaceState, b: WorkspaceState): boolean {
  const paths = Object.keys(b.entries);
  if (!isSame(a.ignored, b.ignored) || !isSame(a.skipped, b.skipped)) return false;
  return paths.length === Object.keys(a.entries).length && paths.every((path) => a.entries[path] === b.entries[path]);
}

/** What tells entries of one path apart: contents by their digest, and by whether they are there, as text or as bytes. */
function markOf(entry: WorkspaceEntry): string {
  const { mode, digest, content } = entry as Partial<WorkspaceFile>;
  return `${entry.kind} ${mode} ${digest} ${typeof content}`;
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
