import type { FileSystem, NewFile } from '../../src/storage/file/file-system.ts';

/** A file system that forgets to sync files. For tests that must notice it. */
export function withoutFileSync(fileSystem: FileSystem): FileSystem {
  return withFiles(fileSystem, (file) => ({ ...file, sync: async () => undefined }));
}

/** A file system that forgets to sync folders, or those whose path matches. For tests that must notice it. */
export function withoutFolderSync(fileSystem: FileSystem, pattern = /^/): FileSystem {
  return override(fileSystem, {
    syncFolder: async (path) => (pattern.test(path) ? undefined : fileSystem.syncFolder(path)),
  });
}

/** A file system that says "synced" first and syncs when the next file gets its name. For tests that must notice it. */
export function withLateSync(fileSystem: FileSystem): FileSystem {
  let late: (() => Promise<void>)[] = [];
  const catchUp = async (): Promise<void> => {
    const due = late;
    late = [];
    for (const sync of due) await sync();
  };
  const postpone = async (sync: () => Promise<void>): Promise<void> => {
    await catchUp();
    late.push(sync);
  };
  const slow = withFiles(fileSystem, (file) => ({ ...file, sync: () => postpone(() => file.sync()) }));
  return override(slow, {
    syncFolder: (path) => postpone(() => fileSystem.syncFolder(path)),
    createFile: async (path) => {
      await catchUp();
      return slow.createFile(path);
    },
    rename: async (from, to) => {
      await catchUp();
      return fileSystem.rename(from, to);
    },
    link: async (from, to) => {
      await catchUp();
      return fileSystem.link(from, to);
    },
  });
}

function withFiles(fileSystem: FileSystem, wrap: (file: NewFile) => NewFile): FileSystem {
  return override(fileSystem, { createFile: async (path) => wrap(await fileSystem.createFile(path)) });
}

/** The same file system with some operations of its own. */
export function override(fileSystem: FileSystem, changes: Partial<FileSystem>): FileSystem {
  const bound: FileSystem = {
    processId: fileSystem.processId,
    isProcessAlive: (processId) => fileSystem.isProcessAlive(processId),
    realPath: (path) => fileSystem.realPath(path),
    readFile: (path) => fileSystem.readFile(path),
    statSize: (path) => fileSystem.statSize(path),
    createFile: (path) => fileSystem.createFile(path),
    rename: (from, to) => fileSystem.rename(from, to),
    link: (from, to) => fileSystem.link(from, to),
    unlink: (path) => fileSystem.unlink(path),
    readFolder: (path) => fileSystem.readFolder(path),
    makeFolder: (path) => fileSystem.makeFolder(path),
    syncFolder: (path) => fileSystem.syncFolder(path),
    removeTree: (path) => fileSystem.removeTree(path),
  };
  return { ...bound, ...changes };
}
