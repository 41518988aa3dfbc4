import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { openRaw } from './raw-sqlite.mjs';
import { fileBytes } from './workbench.mjs';

/** What most people write first: the whole state as a JSON file for every checkpoint; temporary file, fsync, rename. */
export function openJsonFiles(folder) {
  mkdirSync(folder);
  let count = 0;
  return {
    save: (state) => {
      count++;
      const temporary = join(folder, 'temporary');
      const fd = openSync(temporary, 'w');
      writeSync(fd, JSON.stringify(state));
      fsyncSync(fd);
      closeSync(fd);
      renameSync(temporary, join(folder, `${count}.json`));
    },
  };
}

/** What they write second: the whole state as one row of a SQLite table for every checkpoint, as durable as ours by default. */
export function openJsonRows(path) {
  const raw = openRaw(path, 'FULL');
  return {
    save: (state) => raw.insert(JSON.stringify(state)),
    /** The size of the file, with everything in it. */
    bytes: () => {
      raw.db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      return fileBytes(path);
    },
    close: raw.close,
  };
}
