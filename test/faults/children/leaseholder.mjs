// Holds a lease and saves under it, one checkpoint after the other, until a save is refused. Its parent stops it in between.
import { PostgresCheckpointStorage } from '../../../dist/storage/postgres/index.js';
import { openManager, say, told } from './common.mjs';

say({ ready: true });
const { place, ttlMs, renew, stepEvery } = told();
const manager = openManager(new PostgresCheckpointStorage({ ...place, maxConnections: 2 }));
const session = await manager.session('work');
const stored = (turn) => session.save({ writer: 'first', turn }, { metadata: { writer: 'first' } });
const lease = await begin();
say({ epoch: lease.epoch });
try {
  for (let turn = 2; ; turn++) {
    if (renew === 'manual' && turn % 3 === 0) await lease.renew();
    if (turn % stepEvery === 0) say({ step: await session.step('call', () => turn) });
    say({ saved: await stored(turn) });
  }
} catch (error) {
  say({ refused: error.code ?? String(error), message: error.message });
}
// Once more, whatever the client believes: only the storage's own check stands between this and the branch.
const last = await session
  .save({ writer: 'first', late: true }, { metadata: { writer: 'first' } })
  .catch((error) => error.code);
say({ last });
process.exit(0);

/** A lease under which something was saved: on a busy machine the first may lapse before. */
async function begin() {
  for (;;) {
    const lease = await session.lease({ ttlMs, renew, owner: 'first', waitMs: 10_000 }); // one that lapsed here may not have lapsed there
    try {
      say({ saved: await stored(1) });
      return lease;
    } catch (error) {
      if (error.code !== 'CONFLICT') throw error;
    }
  }
}
