// A run is killed in the middle, again and again. What is done twice, and what is lost?
//   node examples/experiments/crash.mjs [kills]
// A child process takes twelve steps, each with an outside effect (a line in a ledger), and saves after each. It is killed with SIGKILL
// at points that differ from run to run, started again until it ends, and the ledger is counted.
import { fork } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const STEPS = 12;

/** The child: pays twelve invoices. The payee refuses a payment whose key it knows, as a payment service would. */
async function pay(folder) {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'run.db') }) });
  const session = await manager.session('payments');
  const state = session.state ?? { paid: [] };
  for (let n = state.paid.length + 1; n <= STEPS; n++) {
    process.send?.({ begins: n });
    const receipt = await session.step(
      'pay',
      async ({ idempotencyKey }) => {
        process.send?.({ calls: n });
        appendFileSync(join(folder, 'ledger.txt'), `${n} ${idempotencyKey}\n`);
        return `receipt ${n}`;
      },
      { input: { invoice: n } },
    );
    process.send?.({ called: n });
    state.paid.push(receipt);
    await session.save(state);
    process.send?.({ saved: n });
  }
  await manager.close();
}

/** Starts the child, and kills it when it has said so many things; resolves whether it was killed. */
function start(folder, killAt) {
  const child = fork(fileURLToPath(import.meta.url), [folder], { env: { ...process.env, EXPERIMENT_CHILD: '1' } });
  let said = 0;
  child.on('message', () => ++said === killAt && child.kill('SIGKILL'));
  return new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal === 'SIGKILL')));
}

async function experiment(kills) {
  const counts = { runs: 0, kills: 0, payments: 0, callsRepeated: 0, paidTwice: 0, lost: 0, damaged: 0 };
  for (let seed = 1; counts.kills < kills; seed++) {
    const folder = mkdtempSync(join(tmpdir(), 'savestate-experiment-'));
    for (let restart = 0; await start(folder, 1 + ((seed * 7 + restart * 5) % 13)); restart++) counts.kills++;
    const calls = readFileSync(join(folder, 'ledger.txt'), 'utf8').trim().split('\n');
    const keys = new Set(calls);
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'run.db') }) });
    const { state } = await manager.session('payments');
    counts.runs++;
    counts.payments += STEPS;
    counts.callsRepeated += calls.length - keys.size; // the same key again: the payee refuses it
    counts.paidTwice += keys.size - STEPS; // another key for the same invoice
    counts.lost += STEPS - state.paid.length;
    counts.damaged += (await manager.verify()).status === 'clean' ? 0 : 1;
    await manager.close();
    if (existsSync(folder)) rmSync(folder, { recursive: true });
  }
  for (const [name, count] of Object.entries(counts)) console.log(`${name}: ${count}`);
}

if (process.env.EXPERIMENT_CHILD === '1') await pay(process.argv[2]);
else await experiment(Number(process.argv[2] ?? 100));
