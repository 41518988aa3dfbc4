import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { type Child, WarmChildren } from '../support/child.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { freshSchema, postgresUrl } from '../support/postgres.ts';

const children = new WarmChildren('leaseholder');
const TTL_MS = 150;
const TRIALS = IS_FULL ? 200 : 10;

test('[lease.4] a writer stopped past its lease cannot commit after it was taken over', async () => {
  const random = seededRandom();
  const schema = freshSchema();
  const failures: string[] = [];
  let acknowledged = 0;
  for (let trial = 0; trial < TRIALS; trial++) {
    const place = { connectionString: postgresUrl(), schema, tenant: randomUUID() };
    const child = await children.next();
    const renew = trial % 2 === 0 ? 'auto' : 'manual';
    child.tell({ place, ttlMs: TTL_MS, renew, stepEvery: 2 + random.below(4) });
    await child.heard('saved');
    await sleep(random.below(60));
    const manager = new CheckpointManager({ storage: new PostgresCheckpointStorage(place) });
    // With no save of the second writer the branch is where the first one left it: only the epoch tells them apart.
    const outcome = await takeOver(child, manager, { saves: trial % 3 });
    failures.push(...outcome.failures.map((failure) => `trial ${trial} (${renew}): ${failure}`));
    acknowledged += outcome.acknowledged;
  }
  reportFaults('writers stopped past their lease', {
    trials: TRIALS,
    failures,
    notes: `${acknowledged} saves acknowledged`,
  });
  expect(failures).toEqual([]);
});

/** Stops the child, takes its lease when it lapses, saves, lets the child go on, and looks at what it could do. */
async function takeOver(
  child: Child,
  manager: CheckpointManager,
  { saves }: { saves: number },
): Promise<{ failures: string[]; acknowledged: number }> {
  child.pause();
  const session = await manager.session('work');
  const lease = await session.lease({ ttlMs: 60_000, waitMs: 10_000, owner: 'second' });
  const resumed = await manager.session('work'); // what the first one stored before it was stopped
  const before = resumed.head?.sequence ?? 0;
  await lease.release();
  const own = await resumed.lease({ ttlMs: 60_000, owner: 'second' });
  for (let turn = 1; turn <= saves; turn++)
    await resumed.save({ writer: 'second', turn }, { metadata: { writer: 'second' } });
  child.continue();
  const { refused } = await child.heard('refused');
  const { last } = await child.heard('last');
  await child.ended;
  const failures: string[] = [];
  if (refused !== 'CONFLICT' || last !== 'CONFLICT') failures.push(`it was refused with ${refused}, then ${last}`);
  const epoch = Number((await child.heard('epoch')).epoch);
  if (own.epoch <= epoch) failures.push(`epoch ${own.epoch} after ${epoch}`);
  const path = await manager.pathToRoot(resumed.head?.id ?? '');
  const all = (await manager.list({ sessionId: 'work' }, { limit: 1000 })).checkpoints;
  const stale = all.filter(({ metadata, sequence }) => metadata?.writer === 'first' && sequence > before);
  if (stale.length > 0) failures.push(`${stale.length} stale commits`);
  if (path.length !== all.length) failures.push(`${all.length - path.length} checkpoints beside the branch`);
  const acknowledged = child.said.filter((said) => 'saved' in said).map(({ saved }) => saved as string);
  const lost = acknowledged.filter((id) => !path.some((entry) => entry.id === id));
  if (lost.length > 0) failures.push(`${lost.length} acknowledged saves lost`);
  await manager.close();
  return { failures, acknowledged: acknowledged.length };
}
