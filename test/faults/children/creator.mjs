// Opens storages that may not exist yet, one after the other, each at the same moment as others do, and saves into a session of its own.
import { openManager, openStorage, say, told } from './common.mjs';
import { conversationOf } from './states.mjs';

say({ ready: true });
for (;;) {
  const { storage: where, name, run } = told();
  const manager = openManager(openStorage(where));
  const session = await manager.session(name);
  for (let count = 1; count <= 3; count++) say({ saved: await session.save(conversationOf(count)), count });
  await manager.close();
  say({ [`finished ${run}`]: true });
}
