import { readlinkSync } from 'node:fs';
import { codeOf, NotFoundError, StorageError } from '../../core/errors.ts';
import { signal as abortSignal, checkOptions, type OptionChecks, record } from '../../core/options.ts';
import { IgnoreList } from './ignore-list.ts';
import { isTemporaryName, OpenFolder } from './open-folder.ts';
import { readWholeFile } from './read-whole-file.ts';
import { FolderScan, type FolderVisitor, type FoundPath, modeOf } from './scan-folder.ts';
import { type KnownFile, WorkspaceCache } from './workspace-cache.ts';
import { resolveWorkspaceOptions, type WorkspaceLimits, type WorkspaceOptions } from './workspace-options.ts';
import {
  digestContent,
  type SkippedPath,
  type SkipReason,
  type WorkspaceEntry,
  type WorkspaceFile,
  type WorkspaceState,
} from './workspace-state.ts';

/** What a capture needs besides what the options say. */
export type CaptureContext = {
  /** Keep one for each folder: then a capture reads, and the save after it writes, only what changed. */
  readonly cache?: WorkspaceCache;
  readonly signal?: AbortSignal | undefined;
};

const CONTEXT: OptionChecks<CaptureContext> = { cache: record, signal: abortSignal };

/**
 * Captures the files of a folder as plain, frozen data that can be part of a state. Parts that did not change since the last capture
 * with the same cache are the same objects, the whole included.
 */
export async function captureWorkspace(
  folder: string,
  options: WorkspaceOptions = {},
  context: CaptureContext = {},
): Promise<WorkspaceState> {
  checkOptions(context, CONTEXT, 'captureWorkspace()');
  const { cache = new WorkspaceCache(), signal } = context;
  signal?.throwIfAborted();
  const limits = resolveWorkspaceOptions(options);
  const root = await openRoot(folder);
  try {
    const capture = new Capture(limits, cache);
    await new FolderScan(capture, new IgnoreList(limits.ignore), signal).scan(root);
    return cache.settle({ entries: capture.entries, skipped: capture.skipped, ignored: limits.ignore }, capture.files);
  } finally {
    await root.close();
  }
}

async function openRoot(folder: string): Promise<OpenFolder> {
  try {
    return await OpenFolder.open(folder);
  } catch (cause) {
    const problem = codeOf(cause);
    if (problem !== 'ENOENT' && problem !== 'ENOTDIR')
      throw new StorageError(`The folder "${folder}" cannot be opened (${problem}).`, { cause });
    throw new NotFoundError(`There is no folder "${folder}". Create it before it is captured.`, {
      details: { folder },
      cause,
    });
  }
}

class Capture implements FolderVisitor {
  /** Without a prototype: a file may be called `__proto__`. */
  readonly entries: Record<string, WorkspaceEntry> = Object.create(null);
  readonly skipped: SkippedPath[] = [];
  readonly files = new Map<string, KnownFile>();
  readonly #limits: WorkspaceLimits;
  readonly #cache: WorkspaceCache;
  #count = 0;
  #totalBytes = 0;
  #isFull = false;

  constructor(limits: WorkspaceLimits, cache: WorkspaceCache) {
    this.#limits = limits;
    this.#cache = cache;
  }

  skip(path: string, reason: SkipReason): void {
    this.skipped.push({ path, reason });
  }

  visit(found: FoundPath): Promise<boolean> | boolean {
    if (isTemporaryName(found.name)) return false;
    if (this.#count >= this.#limits.maxEntries) return this.#stop();
    switch (found.kind) {
      case 'special':
        this.skip(found.path, 'special');
        return false;
      case 'file':
        return this.#captureFile(found);
      case 'link':
        return this.#captureLink(found);
      case 'folder':
        return this.#add(found.path, this.#cache.reuse(found.path, { kind: 'folder', mode: modeOf(found.stats) }));
    }
  }

  /** What comes after the limit is not even listed: there may be millions. */
  #stop(): false {
    if (!this.#isFull) this.skip('.', 'entry-limit');
    this.#isFull = true;
    return false;
  }

  #add(path: string, entry: WorkspaceEntry): true {
    this.#count++;
    this.entries[path] = entry;
    return true;
  }

  #captureLink({ path, folder, name }: FoundPath): boolean {
    try {
      const raw = readlinkSync(folder.at(name), { encoding: 'buffer' });
      const target = raw.toString();
      const link = { kind: 'link' as const, target, digest: digestContent(target) };
      if (Buffer.from(target).equals(raw)) return this.#add(path, this.#cache.reuse(path, link));
      this.skip(path, 'name');
    } catch {
      this.skip(path, 'changing');
    }
    return false;
  }

  #captureFile(found: FoundPath): Promise<boolean> | boolean {
    const known = this.#cache.find(found);
    if (known !== undefined && this.#isUsable(known)) return this.#addFile(found.path, known);
    return this.#readFile(found);
  }

  /** Texts are redacted when they are saved, and bytes are not: what was captured the other way is of no use. */
  #isUsable({ entry, keepSecrets }: KnownFile): boolean {
    return keepSecrets === this.#limits.keepSecrets && (entry.content !== undefined) === this.#fits(entry.sizeBytes);
  }

  async #readFile(found: FoundPath): Promise<boolean> {
    const readAtMs = this.#cache.now;
    const file = await readWholeFile(found, { keepBytes: (sizeBytes) => this.#fits(sizeBytes) });
    if (typeof file === 'string') {
      if (file !== 'gone') this.skip(found.path, file);
      return false;
    }
    const { stats, sizeBytes, digest, bytes } = file;
    const { keepSecrets } = this.#limits;
    const content = bytes && { content: (keepSecrets ? undefined : asText(bytes)) ?? new Uint8Array(bytes) };
    const entry: WorkspaceFile = { kind: 'file', mode: modeOf(stats), sizeBytes, digest, ...content };
    return this.#addFile(found.path, this.#cache.know(found.path, entry, { stats, readAtMs, keepSecrets }));
  }

  #addFile(path: string, file: KnownFile): true {
    const { entry } = file;
    this.files.set(path, file);
    if (entry.content !== undefined) this.#totalBytes += entry.sizeBytes;
    else this.skip(path, entry.sizeBytes > this.#limits.maxFileBytes ? 'file-limit' : 'total-limit');
    return this.#add(path, entry);
  }

  #fits(sizeBytes: number): boolean {
    return sizeBytes <= this.#limits.maxFileBytes && this.#totalBytes + sizeBytes <= this.#limits.maxTotalBytes;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Undefined for what is no text. NUL is valid UTF-8, but what holds it is none, and takes six characters as JSON. */
function asText(bytes: Buffer): string | undefined {
  try {
    return bytes.includes(0) ? undefined : decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
