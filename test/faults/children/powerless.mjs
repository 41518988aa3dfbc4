// Uses a storage that this process has no right to write, as a user that rights bind.
import { openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: where, userId } = told();
if (userId !== undefined) {
  process.setgid(userId);
  process.setuid(userId);
}
try {
  const manager = openManager(openStorage(where));
  const session = await manager.session('chat');
  await session.save({ never: 'stored' });
  say({ result: 'saved' });
} catch (error) {
  say({ result: error.code ?? String(error), message: error.message });
}
