// Saves and steps, says after each that it is acknowledged, or with which code it failed, and may then end at once. Runs under strace.
import { openManager, openStorage, say, told } from './common.mjs';
import { conversationOf } from './states.mjs';

say({ ready: true });
const { storage: where, saves, withSteps, isKilled } = told();
try {
  const manager = openManager(openStorage(where));
  const session = await manager.session('chat');
  for (let count = 1; count <= saves; count++) {
    try {
      const id = await session.save(conversationOf(count));
      say({ ack: id, count });
      if (withSteps) say({ ack: await session.step('call', () => count), isStep: true });
    } catch (error) {
      say({ failed: error.code ?? String(error), outcome: error.details?.outcome });
      if (isKilled) process.kill(process.pid, 'SIGKILL');
    }
  }
  await manager.close();
} catch (error) {
  say({ failed: error.code ?? String(error) });
}
say({ finished: true });
