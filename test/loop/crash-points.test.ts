import { expect, test } from 'vitest';
import type { LoopAgent } from '../../src/runtime/loop/index.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { type Life, MINUTE, World } from './world.ts';

type Payment = { readonly order: string; readonly key: string };

/** Pays for each order outside, notes it, and counts rounds of work. */
const payer =
  (payments: Payment[]): (() => LoopAgent) =>
  () => ({
    tools: {
      reserve: { run: () => 'reserved', undo: () => undefined },
    },
    async handle({ id }, turn) {
      await turn.step('think', () => `about ${id}`);
      if (id === 'order 3') await turn.guard('reserve', (operation) => operation.call('reserve', id));
      await turn.step('pay', ({ idempotencyKey: key }) => void payments.push({ order: id, key }));
      const { session } = turn.state.memory;
      session.paid = [...((session.paid as string[] | undefined) ?? []), id];
      if (id === 'order 2') turn.state.task = { id: 'tidy up', status: 'active', progress: 0 };
    },
    async work(turn) {
      await turn.step('tidy', () => 'tidied');
      const { task } = turn.state;
      if (task === null) return;
      task.progress += 0.5;
      if (task.progress >= 1) task.status = 'done';
    },
  });

const ORDERS = ['order 1', 'order 2', 'order 3', 'order 4', 'order 5'];

/** What the outside does to an agent; its sender repeats what was not accepted, in every life anew. */
async function live(world: World, life: Life): Promise<void> {
  const send = async (id: string) => {
    await Promise.race([life.loop.deliver({ id, body: null }), life.death]);
    await world.clock.settle();
  };
  for (const order of ORDERS.slice(0, 3)) await send(order);
  await world.clock.pass(31 * MINUTE); // a routine checkpoint
  await send('order 4');
  await world.clock.pass(92 * MINUTE); // more of them, and a refresh
  await send('order 5');
  await world.clock.pass(MINUTE);
}

/** Lives that each die at a commit, and one that does not; answers what was wrong in the end. */
async function findFaults(deaths: readonly number[]): Promise<{ faults: string[]; commits: number }> {
  const world = new World();
  const payments: Payment[] = [];
  let commits = 0;
  for (const dieAt of [...deaths, Infinity]) {
    // A message that outlives many processes is not given up here: that is another rule.
    const life = await world.open(dieAt, { createAgent: payer(payments), settings: { maxFailures: 50 } });
    if (life === undefined) continue; // it died before it was open
    await live(world, life);
    commits = life.commits;
    life.die();
  }
  const { loop } = await world.start({ createAgent: payer(payments) });
  await world.clock.settle();
  const faults: string[] = [];
  const check = (what: string, found: unknown, wanted: unknown) => {
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      faults.push(`died at ${deaths}: ${what} is ${JSON.stringify(found)}`);
  };
  const { mailbox, memory, task } = loop.state;
  check('what was paid by the books', memory.session.paid, ORDERS);
  check('what was handled', [mailbox.processedCount, mailbox.pending, mailbox.setAside], [ORDERS.length, [], []]);
  check('the task', task, { id: 'tidy up', status: 'done', progress: 1 });
  check('what was paid outside', [...new Set(payments.map(({ order }) => order))], ORDERS);
  check('different keys', new Set(payments.map(({ key }) => key)).size, ORDERS.length);
  if (payments.length > ORDERS.length + deaths.length) faults.push(`died at ${deaths}: ${payments.length} payments`);
  const { status } = await world.look().verify();
  check('the storage', status, 'clean');
  return { faults, commits };
}

test('[loop.2] killed before and after every single commit: nothing is lost, nothing that ended happens again', async () => {
  const { commits, faults: none } = await findFaults([]);
  expect(none).toEqual([]);
  expect(commits).toBeGreaterThan(60);
  const faults: string[] = [];
  let trials = 0;
  for (let dieAt = 1; dieAt <= commits + 0.5; dieAt += IS_FULL ? 0.5 : 1.5) {
    faults.push(...(await findFaults([dieAt])).faults);
    trials++;
  }
  reportFaults('agents killed at a commit', { trials, failures: faults });
  expect(faults).toEqual([]);
});

test('[loop.2] killed several times in a row, wherever it was then', async () => {
  const random = seededRandom();
  const trials = IS_FULL ? 300 : 25;
  const faults: string[] = [];
  for (let trial = 0; trial < trials; trial++) {
    const deaths = Array.from({ length: 2 + random.below(3) }, () => 1 + random.below(120) / 2);
    faults.push(...(await findFaults(deaths)).faults);
  }
  reportFaults('agents killed several times', { trials, failures: faults });
  expect(faults).toEqual([]);
});

test('[loop.2] checkpoints at every moment of a turn, and a kill at any commit', async () => {
  const random = seededRandom();
  const trials = IS_FULL ? 400 : 40;
  const faults: string[] = [];
  for (let trial = 0; trial < trials; trial++) {
    const world = new World();
    const payments: Payment[] = [];
    const first = await world.start({ createAgent: payer(payments) });
    await world.clock.settle();
    first.dieAtCommit(first.commits + 1 + random.below(160) / 2);
    const delivering = ORDERS.map((id) => first.loop.deliver({ id, body: null }));
    // Each resume takes a checkpoint; in this storage all of it happens between two turns of the event loop.
    const saving = Array.from({ length: 30 }, async () => {
      for (let wait = random.below(400); wait > 0; wait--) await Promise.resolve();
      await first.loop.resume();
    });
    await Promise.race([Promise.allSettled([...delivering, ...saving]), first.death]);
    await world.clock.settle();
    first.die();
    const { loop } = await world.start({ createAgent: payer(payments) });
    for (const id of ORDERS) await loop.deliver({ id, body: null });
    await world.clock.settle();
    const { memory, mailbox, task } = loop.state;
    const paid = (memory.session.paid as string[] | undefined) ?? [];
    const found = [paid.toSorted(), mailbox.processedCount, mailbox.setAside.length, task?.progress];
    if (JSON.stringify(found) !== JSON.stringify([ORDERS, ORDERS.length, 0, 1]))
      faults.push(`trial ${trial}: ${JSON.stringify(found)}`);
    if (payments.length > ORDERS.length + 1) faults.push(`trial ${trial}: ${JSON.stringify(payments)}`);
  }
  reportFaults('agents killed among checkpoints', { trials, failures: faults });
  expect(faults).toEqual([]);
});
