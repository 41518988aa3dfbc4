// Runs steps whose effect is a line in a file outside, and dies at the point it was told.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { die, openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: where, side, steps, mode, stop } = told();

function dieAt(point, step) {
  if (stop !== undefined && stop.point === point && stop.step === step) die();
}

/** The moment between "the result is durable" and "step() returned". */
function dyingAfterResult(storage) {
  if (stop?.point !== 'durable') return storage;
  const commit = async (given) => {
    const result = await storage.commit(given);
    for (const { body } of given.effects ?? []) {
      const { status, ordinal } = JSON.parse(body);
      if (status === 'done') dieAt('durable', ordinal);
    }
    return result;
  };
  return new Proxy(storage, {
    get(target, key) {
      if (key === 'commit') return commit;
      const value = Reflect.get(target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

function affectTheOutside(line) {
  const file = openSync(side, 'a');
  writeSync(file, `${JSON.stringify(line)}\n`);
  fsyncSync(file);
  closeSync(file);
}

const manager = openManager(dyingAfterResult(openStorage(where)));
const session = await manager.session('run', mode === 'saved, from the start' ? { replayFrom: 'start' } : {});
say({ open: true });
const first = mode === 'saved, from the head' ? (session.state?.next ?? 0) : 0;
for (let step = first; step < steps; step++) {
  const result = await session.step(
    `call-${step % 3}`,
    ({ attempt, idempotencyKey }) => {
      say({ entered: step, attempt, key: idempotencyKey });
      if (attempt === 1) dieAt('before', step);
      affectTheOutside({ step, attempt, key: idempotencyKey });
      if (attempt === 1) dieAt('inside', step);
      return { square: step * step, text: `result of ${step} `.repeat(step % 10 === 0 ? 100 : 1) };
    },
    { input: { step } },
  );
  say({ returned: step, square: result.square });
  dieAt('after', step);
  if (mode !== 'never saved' && step >= (session.state?.next ?? 0)) {
    await session.save({ next: step + 1 });
    say({ saved: step });
    dieAt('saved', step);
  }
}
await manager.close();
say({ finished: true });
