import { describe, expect, test } from 'vitest';
import { hasErrorCode } from '../../src/core/errors.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { Session } from '../../src/manager/session/session.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import type { Random } from '../../src/testing/contract/random.ts';
import { TestClock } from '../support/clock.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { STORAGES } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

const TTL_MS = 30_000;
const ROUNDS = 3;
const MAX_CONTENDERS = 8;

type Scene = { readonly clock: TestClock; readonly managers: readonly CheckpointManager[]; readonly random: Random };

/** All ask for the lease of one session at once, again and again after it lapsed; who had it before goes on as if it still had. */
async function contend({ clock, managers, random }: Scene): Promise<string[]> {
  const failures: string[] = [];
  const acknowledged: unknown[] = [];
  let [former, epoch] = [undefined as Session | undefined, 0];
  let formerAt = -1;
  for (let round = 1; round <= ROUNDS; round++) {
    const sessions = await Promise.all(managers.map((manager) => manager.session('work')));
    const asked = await Promise.allSettled(
      sessions.map((session, at) =>
        at === formerAt
          ? Promise.reject(new Error('it had it before'))
          : session.lease({ ttlMs: TTL_MS, renew: 'manual' }),
      ),
    );
    const holders = asked.flatMap((outcome, at) =>
      outcome.status === 'fulfilled' ? [{ at, lease: outcome.value }] : [],
    );
    const raw = asked.filter(
      (outcome, at) => outcome.status === 'rejected' && at !== formerAt && !hasErrorCode(outcome.reason, 'CONFLICT'),
    );
    failures.push(...raw.map((outcome) => `round ${round}: refused with ${JSON.stringify(outcome)}`));
    const [holder] = holders;
    if (holder === undefined || holders.length > 1)
      return [...failures, `round ${round}: ${holders.length} have the lease`];
    if (holder.lease.epoch <= epoch) failures.push(`round ${round}: epoch ${holder.lease.epoch} after ${epoch}`);
    const session = sessions[holder.at] as Session;
    const stale = former?.save({ round, writer: 'stale' });
    const saved = session.save({ round, writer: 'holder' });
    for (const outcome of await Promise.allSettled(random.below(2) === 0 ? [saved, stale] : [stale, saved])) {
      if (outcome.status === 'rejected' && !hasErrorCode(outcome.reason, 'CONFLICT'))
        failures.push(`${outcome.reason}`);
    }
    if (
      former !== undefined &&
      (await stale?.then(
        () => true,
        () => false,
      ))
    )
      failures.push(`round ${round}: a stale save went through`);
    acknowledged.unshift(await saved.catch(() => failures.push(`round ${round}: the holder was refused`)));
    [former, formerAt, epoch] = [session, holder.at, holder.lease.epoch];
    clock.skip(TTL_MS + 1);
  }
  const [manager] = managers;
  const ids = (await (await manager?.session('work'))?.history())?.map(({ id }) => id);
  if (ids?.join() !== acknowledged.join())
    failures.push(`the history is ${ids}, and acknowledged were ${acknowledged}`);
  return failures;
}

describe.each(STORAGES)('contenders for a session on %s', (name, create) => {
  test('[lease.1] [lease.4] one of them gets it, and who had it before stores nothing more', async () => {
    const random = seededRandom();
    const failures: string[] = [];
    const total = trials(50);
    for (let trial = 0; trial < total; trial++) {
      const clock = new TestClock();
      const { storage, reopen } = create();
      const open = (): ChunkStorage => reopen?.() ?? storage;
      const managers = Array.from(
        { length: 2 + random.below(MAX_CONTENDERS - 1) },
        () => new CheckpointManager({ storage: clock.watch(open()), now: clock.now, setTimer: clock.setTimer }),
      );
      failures.push(...(await contend({ clock, managers, random })).map((failure) => `trial ${trial}: ${failure}`));
      for (const manager of managers) await manager.close();
    }
    reportFaults(`contenders on ${name}`, { trials: total, failures, notes: `seed=${random.seed}` });
    expect(failures).toEqual([]);
  });
});
