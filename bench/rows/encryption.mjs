import { CheckpointManager, SqliteCheckpointStorage } from '../../dist/index.js';
import { encrypted, Keyring } from '../../dist/storage/encryption/index.js';
import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { createMessages } from '../messages.mjs';
import { DURABILITIES, extend, frozenState, GrowingSession } from '../workbench.mjs';

export const encryption = {
  id: 'encryption',
  title: 'save through encrypted() ÷ plain save, SQLite, draft-made state, at message 1,000',
  run,
};

const MESSAGES = 1_000;
const TARGETS = { process: 1.25 };

async function run(workbench) {
  for (const { durability, label } of DURABILITIES) {
    const probe = createFsyncProbe(workbench.folder);
    const plain = await open(workbench, durability);
    const sealed = await open(workbench, durability, (storage) => encrypted(storage, { keys: Keyring.create() }));
    const sides = await interleave(
      { encrypted: sealed.growing.side, plain: plain.growing.side, 'fsync probe': probe },
      { rounds: workbench.rounds(400), warmup: 30 },
    );
    await Promise.all([plain.manager.close(), sealed.manager.close()]);
    probe.close();
    const target = TARGETS[durability];
    workbench.report.line({
      what: `encrypted ÷ plain save, ${label}`,
      ...ratioOf(sides.encrypted, sides.plain),
      ...(target !== undefined && { target: { atMost: target } }),
      sides,
    });
  }
}

async function open(workbench, durability, around = (storage) => storage) {
  const storage = new SqliteCheckpointStorage({ path: workbench.newPath(), durability });
  const manager = new CheckpointManager({ storage: around(storage) });
  const session = await manager.session('long');
  const state = await extend(session, frozenState([]), createMessages(workbench.rounds(MESSAGES)));
  return { manager, growing: new GrowingSession(session, state, 5) };
}
