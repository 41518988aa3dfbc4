// Saves large values through an object store, says each after it was acknowledged, and dies at its nth put: before it, or after it and before the commit.
import { randomBytes } from 'node:crypto';
import { CheckpointManager } from '../../../dist/index.js';
import { FolderObjects, withObjects } from '../../../dist/storage/objects/index.js';
import { die, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: place, objects: folder, dieAt, isAfter } = told();
const inner = new FolderObjects(folder);
let puts = 0;
const objects = {
  put: async (...given) => {
    const isLast = ++puts === dieAt;
    if (isLast && !isAfter) die();
    await inner.put(...given);
    if (isLast) die();
  },
  get: (...given) => inner.get(...given),
  delete: (name) => inner.delete(name),
  list: () => inner.list(),
};
const manager = new CheckpointManager({ storage: withObjects(openStorage(place), objects) });
const session = await manager.session('s', { initial: { said: [] } });
for (;;) {
  session.state.said.push(randomBytes(60_000).toString('hex')); // equal pieces would be stored once
  say({ saved: await session.save() });
}
