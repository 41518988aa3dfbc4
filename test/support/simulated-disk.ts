import { dirname } from 'node:path';
import type { FileSystem } from '../../src/storage/file/file-system.ts';
import { createRandom, type Random } from '../../src/testing/contract/random.ts';
import { type OperationFault, SimulatedFileSystem } from './simulated-file-system.ts';
import {
  copyFolder,
  copyNode,
  createFolder,
  type DiskNode,
  type FileNode,
  type FolderNode,
  fileError,
} from './simulated-node.ts';

/** One name of a folder that came (`node`) or went (no `node`). */
type Step = { readonly folder: FolderNode; readonly name: string; readonly node: DiskNode | undefined };
/** Steps that happen together or not at all. */
type Change = readonly Step[];

/** The disk after a power cut, and how many operations it had carried out before. */
export type CrashState = { readonly operation: number; readonly disk: SimulatedDisk };

/** What a process on a simulated disk meets. */
export type ProcessOptions = {
  readonly faults?: readonly OperationFault[];
  /** Makes operations of several processes interleave in an order of its own for each seed. */
  readonly seed?: number;
};

/**
 * A disk in memory that knows what a power cut may leave. Content that was not synced may be missing, cut short or zero.
 * Names that were not synced may have come, gone or stayed, each on its own and in any order across folders. What was synced stays.
 */
export class SimulatedDisk {
  readonly root: FolderNode;
  readonly #alive = new Set<string>();
  #pending: Change[];
  #copies: SimulatedDisk[] | undefined;
  #operations = 0;
  /** Process numbers are never used again, so that what a process left before a power cut is not taken for its successor's. */
  #lastProcess = 0;

  constructor(root: FolderNode = createFolder(), pending: Change[] = []) {
    this.root = root;
    this.#pending = pending;
  }

  /** The number of operations that changed the disk. */
  get operations(): number {
    return this.#operations;
  }

  /** The file system as a new process sees it. */
  fileSystem(options: ProcessOptions = {}): FileSystem {
    const processId = `${++this.#lastProcess}-1`;
    this.#alive.add(processId);
    return new SimulatedFileSystem(this, processId, options);
  }

  isProcessAlive(processId: string): boolean {
    return this.#alive.has(processId);
  }

  /** Lets a process be dead from now on, as after `kill -9`; the disk stays as it is. */
  endProcess(fileSystem: FileSystem): void {
    this.#alive.delete(fileSystem.processId);
  }

  /** Keeps a copy of the disk after each operation from now on, for `crashStates`. */
  startRecording(): void {
    this.#copies = [this.#copy()];
  }

  /** Disks that a power cut after each recorded operation may leave, a number of them for each. */
  *crashStates({ seed, countPerOperation }: { seed: number; countPerOperation: number }): Generator<CrashState> {
    for (const copy of this.#copies ?? []) {
      const random = createRandom(seed * 1_000_003 + copy.operations);
      for (let n = 0; n < countPerOperation; n++) yield { operation: copy.operations, disk: copy.#cutPower(random, n) };
    }
  }

  /** One disk that a power cut now may leave. */
  cutPower(seed: number): SimulatedDisk {
    return this.#cutPower(createRandom(seed), 2);
  }

  /** The first two outcomes are the extremes, which find the most: nothing, and every name but no content, survives. */
  #cutPower(random: Random, outcome: number): SimulatedDisk {
    const copy = this.#copy();
    const happens = (): boolean => (outcome < 2 ? outcome === 1 : random.below(2) === 0);
    for (const change of copy.#pending) if (happens()) applyTo('durable', change);
    const tear = (file: FileNode): Uint8Array => (outcome < 2 ? file.durable : tearContent(file, random));
    const after = new SimulatedDisk(copyFolder(copy.root, { names: 'durable', tear, seen: new Map() }));
    after.#lastProcess = this.#lastProcess;
    return after;
  }

  #copy(): SimulatedDisk {
    const seen = new Map<DiskNode, DiskNode>();
    const root = copyFolder(this.root, { names: 'names', seen });
    const folderOf = (folder: FolderNode): FolderNode => copyNode(folder, { names: 'names', seen }) as FolderNode;
    const pending = this.#pending.map((change) =>
      change.map(({ folder, name, node }) => ({
        folder: folderOf(folder),
        name,
        node: node && copyNode(node, { names: 'names', seen }),
      })),
    );
    const disk = new SimulatedDisk(root, pending);
    disk.#operations = this.#operations;
    disk.#lastProcess = this.#lastProcess;
    return disk;
  }

  /** Carries out a change of names that a power cut may undo until its folder is synced. */
  change(...change: Change): void {
    applyTo('names', change);
    this.#pending.push(change);
    this.#count();
  }

  /** Replaces a file's content; a power cut may undo or tear that until the file is synced. */
  write(file: FileNode, content: Uint8Array): void {
    file.content = content;
    this.#count();
  }

  syncFile(file: FileNode): void {
    file.durable = file.content;
    this.#count();
  }

  syncFolder(folder: FolderNode): void {
    let left: Change[] = [];
    for (const change of this.#pending) {
      if (!change.some((step) => step.folder === folder)) {
        left.push(change);
        continue;
      }
      applyTo('durable', change);
      // What came before under the same names, also in other folders, can come up no more.
      if (change.length > 1) left = left.filter((earlier) => !earlier.every((step) => isOvertaken(step, change)));
    }
    this.#pending = left;
    this.#count();
  }

  #count(): void {
    this.#operations++;
    this.#copies?.push(this.#copy());
  }

  /** What is at a path now; `undefined` if nothing is. */
  find(path: string): DiskNode | undefined {
    let node: DiskNode | undefined = this.root;
    for (const name of path.split('/').filter((part) => part !== '')) {
      if (node?.kind === 'file') throw fileError('ENOTDIR', path);
      node = node?.names.get(name);
    }
    return node;
  }

  /** The folder at a path; fails with `ENOENT` or `ENOTDIR`. */
  folder(path: string): FolderNode {
    const node = this.find(path);
    if (node === undefined) throw fileError('ENOENT', path);
    if (node.kind !== 'folder') throw fileError('ENOTDIR', path);
    return node;
  }

  /** The folder that a path's last name is in. */
  parent(path: string): FolderNode {
    return this.folder(dirname(path));
  }

  /** Paths of all files. */
  filePaths(folder: FolderNode = this.root, path = ''): string[] {
    return [...folder.names].flatMap(([name, node]) =>
      node.kind === 'file' ? [`${path}/${name}`] : this.filePaths(node, `${path}/${name}`),
    );
  }

  /** Turns one bit of a file over, as bad hardware does; answers false if the file is not that long. */
  flipBit(path: string, bit: number): boolean {
    const node = this.find(path);
    const at = Math.floor(bit / 8);
    if (node?.kind !== 'file' || at >= node.content.length) return false;
    const content = Uint8Array.from(node.content);
    content[at] = (content[at] ?? 0) ^ (1 << (bit % 8));
    node.content = content;
    node.durable = content;
    return true;
  }
}

function applyTo(side: 'names' | 'durable', change: Change): void {
  for (const { folder, name, node } of change) {
    if (node === undefined) folder[side].delete(name);
    else folder[side].set(name, node);
  }
}

const isOvertaken = (step: Step, by: Change): boolean =>
  by.some((later) => later.folder === step.folder && later.name === step.name);

/** What of content that was not synced a power cut may leave. */
function tearContent({ content, durable }: FileNode, random: Random): Uint8Array {
  if (content === durable) return content;
  switch (random.below(4)) {
    case 0:
      return durable;
    case 1:
      return content.slice(0, random.below(content.length + 1));
    case 2:
      return new Uint8Array(content.length);
    default:
      return content;
  }
}
