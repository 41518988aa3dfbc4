import { openManager } from './workbench.mjs';

// Saves once for every message of the process that started it, and says when.
const manager = openManager(process.argv[2], { durability: 'process' });
const session = await manager.session('long');
process.on('message', async () => {
  await session.save({ ...session.state, savedAtMs: Date.now() });
  process.send({ sequence: session.head.sequence, savedMs: Date.now() });
});
process.on('disconnect', () => process.exit());
