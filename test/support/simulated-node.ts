/** A file: what programs read now, and what the disk surely has. The two are one value after a sync. */
export type FileNode = { readonly kind: 'file'; content: Uint8Array; durable: Uint8Array };
/** A folder: the names programs see now, and those the disk surely has. */
export type FolderNode = {
  readonly kind: 'folder';
  readonly names: Map<string, DiskNode>;
  readonly durable: Map<string, DiskNode>;
};
/** What a name stands for. */
export type DiskNode = FileNode | FolderNode;

/** An empty folder. */
export function createFolder(): FolderNode {
  return { kind: 'folder', names: new Map(), durable: new Map() };
}

/** An error as Node's file system throws it. */
export function fileError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: simulated, '${path}'`), { code, path });
}

/** How to copy a part of a disk; `seen` keeps what is one thing one thing. */
type CopyOptions = {
  /** `names`: a copy of everything. `durable`: a disk of its own that has only what is durable. */
  readonly names: 'names' | 'durable';
  readonly tear?: (file: FileNode) => Uint8Array;
  readonly seen: Map<DiskNode, DiskNode>;
};

/** Copies a file or folder once, however many names it has. */
export function copyNode(node: DiskNode, options: CopyOptions): DiskNode {
  const known = options.seen.get(node);
  if (known !== undefined) return known;
  return node.kind === 'folder' ? copyFolder(node, options) : copyFile(node, options);
}

function copyFile(file: FileNode, { tear, seen }: CopyOptions): FileNode {
  const content = tear?.(file);
  const copy: FileNode = content === undefined ? { ...file } : { kind: 'file', content, durable: content };
  seen.set(file, copy);
  return copy;
}

/** Copies a folder with all it holds. */
export function copyFolder(folder: FolderNode, options: CopyOptions): FolderNode {
  const copy = createFolder();
  options.seen.set(folder, copy);
  for (const [name, node] of folder[options.names]) copy.names.set(name, copyNode(node, options));
  for (const [name, node] of folder.durable) copy.durable.set(name, copyNode(node, options));
  return copy;
}
