// Made the databases of format version 2 in this folder, once, and like it was made what is of version 1. They are never edited; a
// new format version gets files of its own beside them. Run: node test/golden/create.mjs <empty folder>
import { join } from 'node:path';
import { CheckpointManager, SqliteCheckpointStorage } from '../../dist/index.js';
import { goldenHistory } from './history.mjs';

const [folder = ''] = process.argv.slice(2);
const storages = {
  plain: new SqliteCheckpointStorage({ path: join(folder, 'format-2.db') }),
  compressed: new SqliteCheckpointStorage({ path: join(folder, 'format-2-compressed.db'), compress: true }),
};
for (const storage of Object.values(storages)) {
  let nowMs = Date.UTC(2026, 10, 15);
  const manager = new CheckpointManager({ storage, now: () => nowMs++, random: (size) => new Uint8Array(size).fill(7) });
  await goldenHistory(manager);
  await manager.close();
}
