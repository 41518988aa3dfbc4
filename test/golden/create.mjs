// Made the files of this folder, once, with the release that introduced format version 1. They are never edited; a new
// format version gets files of its own beside them. Run: node test/golden/create.mjs <empty folder>
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointManager, FileCheckpointStorage, SqliteCheckpointStorage } from '../../dist/index.js';
import { goldenHistory } from './history.mjs';

const [folder = ''] = process.argv.slice(2);
const storages = {
  'format-1.db': new SqliteCheckpointStorage({ path: join(folder, 'format-1.db') }),
  'format-1-compressed.db': new SqliteCheckpointStorage({ path: join(folder, 'format-1-compressed.db'), compress: true }),
  'format-1-files': new FileCheckpointStorage({ path: join(folder, 'format-1-files') }),
};
for (const [name, storage] of Object.entries(storages)) {
  let nowMs = Date.UTC(2026, 10, 15);
  const manager = new CheckpointManager({ storage, now: () => nowMs++, random: (size) => new Uint8Array(size).fill(7) });
  await goldenHistory(manager);
  if (name === 'format-1.db') {
    let text = '';
    for await (const line of manager.exportSession('golden')) text += line;
    writeFileSync(join(folder, 'format-1.jsonl'), text);
  }
  await manager.close();
}
