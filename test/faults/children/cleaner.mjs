// Prunes and collects without end.
import { openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: where } = told();
const manager = openManager(openStorage(where));
say({ open: true });
for (;;) {
  const { deleted } = await manager.prune({ policy: { keepLast: 5 } });
  const { chunks } = await manager.gc();
  say({ deleted: deleted.length, chunks });
}
