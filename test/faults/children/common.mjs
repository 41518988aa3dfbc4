import { readSync, writeSync } from 'node:fs';
import { CheckpointManager, FileCheckpointStorage, SqliteCheckpointStorage } from '../../../dist/index.js';
import { encrypted, KeyFile } from '../../../dist/storage/encryption/index.js';

/** Tells the parent something, before the next line of this program runs. */
export function say(value) {
  const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

/** Waits for the parent's next line. Blocks, so that nothing of this program runs before. */
export function told() {
  const bytes = [];
  const byte = Buffer.alloc(1);
  while (readSync(0, byte) === 1 && byte[0] !== 10) bytes.push(byte[0]);
  if (bytes.length === 0) process.exit(0); // the parent is gone
  return JSON.parse(Buffer.from(bytes).toString());
}

/** Dies as a power switch would have it: no handlers, no flushing, now. */
export function die() {
  process.kill(process.pid, 'SIGKILL');
  for (;;);
}

export function openStorage({ kind, path, keyFile, ...options }) {
  const storage =
    kind === 'sqlite' ? new SqliteCheckpointStorage({ path, ...options }) : new FileCheckpointStorage({ path });
  return keyFile === undefined ? storage : encrypted(storage, { keys: new KeyFile(keyFile) });
}

export function openManager(storage) {
  return new CheckpointManager({ storage });
}

/** Like `openStorage`, and PostgreSQL too. */
export async function openAnyStorage(place) {
  if (place.kind !== 'postgres') return openStorage(place);
  const { PostgresCheckpointStorage } = await import('../../../dist/storage/postgres/index.js');
  const { kind: _, ...options } = place;
  return new PostgresCheckpointStorage({ ...options, maxConnections: 2 });
}
