import { CorruptError } from '../../src/core/errors.ts';
import type { FileSystem, FolderEntry, NewFile } from '../../src/storage/file/file-system.ts';
import { createRandom, type Random } from '../../src/testing/contract/random.ts';
import type { ProcessOptions, SimulatedDisk } from './simulated-disk.ts';
import { createFolder, type FileNode, type FolderNode, fileError } from './simulated-node.ts';

/** The operations that change a disk. */
export const CHANGING_OPERATIONS = [
  'createFile',
  'write',
  'syncFile',
  'syncFolder',
  'rename',
  'link',
  'unlink',
  'makeFolder',
  'removeTree',
] as const;

/** The operations that can be made to fail. */
export type Operation = (typeof CHANGING_OPERATIONS)[number] | 'read';

/**
 * Lets the n-th of some operations fail, or, if sticky, all from the n-th on. The code `STOP` is no failure: the process stands
 * still there for ever, as after SIGSTOP.
 */
export type OperationFault = {
  readonly on: readonly Operation[];
  readonly nth: number;
  readonly code: string;
  readonly isSticky?: boolean;
};

const TURNS = 4;
const LONG_TURNS = 200;
const LONG_TURN_ONE_IN = 20;

/** Mostly a few turns; now and then so many that another process gets through a whole commit. */
function chooseTurns(random: Random): number {
  return random.below(LONG_TURN_ONE_IN) === 0 ? random.below(LONG_TURNS) : random.below(TURNS);
}

/** One process's view of a SimulatedDisk. */
export class SimulatedFileSystem implements FileSystem {
  readonly processId: string;
  readonly #disk: SimulatedDisk;
  readonly #faults: readonly OperationFault[];
  readonly #counts = new Map<OperationFault, number>();
  readonly #random: Random | undefined;

  constructor(disk: SimulatedDisk, processId: string, { faults = [], seed }: ProcessOptions) {
    this.#disk = disk;
    this.processId = processId;
    this.#faults = faults;
    this.#random = seed === undefined ? undefined : createRandom(seed);
  }

  /** Waits for its turn among other processes, then fails if a fault says so. */
  async #begin(operation: Operation, path: string): Promise<void> {
    const turns = this.#random === undefined ? 0 : chooseTurns(this.#random);
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    for (const fault of this.#faults) {
      if (!fault.on.includes(operation)) continue;
      const count = (this.#counts.get(fault) ?? 0) + 1;
      this.#counts.set(fault, count);
      if (count < fault.nth || (count > fault.nth && fault.isSticky !== true)) continue;
      if (fault.code === 'STOP') await new Promise(() => undefined);
      throw fileError(fault.code, path);
    }
  }

  async isProcessAlive(processId: string): Promise<boolean> {
    return this.#disk.isProcessAlive(processId);
  }

  async realPath(path: string): Promise<string | undefined> {
    return this.#disk.find(path) === undefined ? undefined : path;
  }

  async readFile(path: string): Promise<Uint8Array | undefined> {
    await this.#begin('read', path);
    return this.#file(path)?.content.slice();
  }

  async statSize(path: string): Promise<number | undefined> {
    await this.#begin('read', path);
    return this.#file(path)?.content.length;
  }

  #file(path: string): FileNode | undefined {
    const node = this.#disk.find(path);
    if (node?.kind === 'folder') throw new CorruptError(`${path} is not a regular file.`, { details: { path } });
    return node;
  }

  async createFile(path: string): Promise<NewFile> {
    await this.#begin('createFile', path);
    const folder = this.#disk.parent(path);
    if (folder.names.has(nameOf(path))) throw fileError('EEXIST', path);
    const empty = new Uint8Array();
    const file: FileNode = { kind: 'file', content: empty, durable: empty };
    this.#disk.change({ folder, name: nameOf(path), node: file });
    return {
      write: (text) => this.#write(file, text, path),
      sync: async () => {
        await this.#begin('syncFile', path);
        this.#disk.syncFile(file);
      },
      close: async () => undefined,
    };
  }

  async #write(file: FileNode, text: string, path: string): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    try {
      await this.#begin('write', path);
    } catch (error) {
      // A disk that runs full has taken the first part.
      this.#disk.write(file, bytes.slice(0, bytes.length / 2));
      throw error;
    }
    this.#disk.write(file, bytes);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#begin('rename', to);
    const [source, target] = [this.#disk.parent(from), this.#disk.parent(to)];
    const node = source.names.get(nameOf(from));
    if (node === undefined) throw fileError('ENOENT', from);
    checkReplaceable(node, target.names.get(nameOf(to)), to);
    const added = { folder: target, name: nameOf(to), node };
    const removed = { folder: source, name: nameOf(from), node: undefined };
    // No file system lets a folder be in two places; but a file may be found under both names, or under neither.
    if (source === target || node.kind === 'folder') {
      this.#disk.change(added, removed);
      return;
    }
    this.#disk.change(added);
    this.#disk.change(removed);
  }

  async link(from: string, to: string): Promise<void> {
    await this.#begin('link', to);
    const [node, folder] = [this.#disk.find(from), this.#disk.parent(to)];
    if (node === undefined) throw fileError('ENOENT', from);
    if (node.kind === 'folder') throw fileError('EPERM', from);
    if (folder.names.has(nameOf(to))) throw fileError('EEXIST', to);
    this.#disk.change({ folder, name: nameOf(to), node });
  }

  async unlink(path: string): Promise<void> {
    await this.#begin('unlink', path);
    const folder = this.#disk.parent(path);
    if (!folder.names.has(nameOf(path))) throw fileError('ENOENT', path);
    this.#disk.change({ folder, name: nameOf(path), node: undefined });
  }

  async readFolder(path: string): Promise<readonly FolderEntry[] | undefined> {
    await this.#begin('read', path);
    const node = this.#disk.find(path);
    if (node === undefined) return undefined;
    if (node.kind === 'file') throw new CorruptError(`${path} is not a folder.`, { details: { path } });
    return [...node.names].map(([name, { kind }]) => ({ name, kind }));
  }

  async makeFolder(path: string): Promise<boolean> {
    await this.#begin('makeFolder', path);
    const folder = this.#disk.parent(path);
    const found = folder.names.get(nameOf(path));
    if (found?.kind === 'file') throw new CorruptError(`${path} is not a folder.`, { details: { path } });
    if (found !== undefined) return false;
    this.#disk.change({ folder, name: nameOf(path), node: createFolder() });
    return true;
  }

  async syncFolder(path: string): Promise<void> {
    await this.#begin('syncFolder', path);
    this.#disk.syncFolder(this.#disk.folder(path));
  }

  async removeTree(path: string): Promise<void> {
    await this.#begin('removeTree', path);
    const node = this.#disk.find(path);
    if (node === undefined) return;
    if (node.kind === 'folder') this.#empty(node);
    this.#disk.change({ folder: this.#disk.parent(path), name: nameOf(path), node: undefined });
  }

  #empty(folder: FolderNode): void {
    for (const [name, node] of folder.names) {
      if (node.kind === 'folder') this.#empty(node);
      this.#disk.change({ folder, name, node: undefined });
    }
  }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

function checkReplaceable(node: { kind: string }, found: FileNode | FolderNode | undefined, path: string): void {
  if (found === undefined) return;
  if (found.kind !== node.kind) throw fileError(found.kind === 'folder' ? 'EISDIR' : 'ENOTDIR', path);
  if (found.kind === 'folder' && found.names.size > 0) throw fileError('ENOTEMPTY', path);
}
