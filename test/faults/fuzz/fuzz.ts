import { expect } from 'vitest';
import { SavestateError } from '../../../src/core/errors.ts';
import { createRandom, type Random } from '../../../src/testing/contract/random.ts';
import { reportFaults } from '../../support/fault-report.ts';

/** No input of these sizes may keep a processor busy for longer; most take less than a thousandth of it. */
const MAX_BUSY_MS = 6_000; // processor time counts about twice where others use the same core

export type Fuzz<Input> = {
  readonly trials: number;
  readonly draw: (random: Random) => Input;
  /** Throws errors of ours, or returns what is wrong. */
  readonly run: (input: Input) => unknown;
};

/** Gives random inputs to a part of the program: it may refuse them with an error of ours, and nothing else. */
export async function fuzz<Input>(name: string, { trials, draw, run }: Fuzz<Input>): Promise<void> {
  const failures: string[] = [];
  const prototypes = describePrototypes();
  let taken = 0;
  const only = process.env.SAVESTATE_SEED;
  const first = Number(only ?? 1);
  const last = only === undefined ? trials : first;
  for (let seed = first; seed <= last; seed++) {
    const input = draw(createRandom(seed));
    const started = process.cpuUsage();
    const { fault, isTaken } = await judge(() => run(input));
    if (isTaken) taken++;
    const { user, system } = process.cpuUsage(started);
    const busyMs = (user + system) / 1_000;
    const faults = [fault, busyMs > MAX_BUSY_MS ? `it took ${busyMs} ms of processor time` : undefined];
    if (describePrototypes() !== prototypes) faults.push('a prototype was changed');
    for (const found of faults.filter((each) => each !== undefined))
      failures.push(`SAVESTATE_SEED=${seed}: ${found} for ${JSON.stringify(input)?.slice(0, 300)}`);
    if (failures.length >= 20) break;
  }
  reportFaults(`fuzz, ${name}`, { trials: last - first + 1, failures, notes: `taken=${taken}` });
  expect(failures).toEqual([]);
  // Where everything is refused at its first character, the rest was never tried.
  if (only === undefined) expect(taken).toBeGreaterThan(trials / 200);
}

async function judge(run: () => unknown): Promise<{ readonly fault?: string | undefined; readonly isTaken: boolean }> {
  try {
    const fault = await run();
    return { fault: typeof fault === 'string' ? fault : undefined, isTaken: true };
  } catch (error) {
    if (error instanceof SavestateError) return { isTaken: false };
    return { fault: `raw ${error instanceof Error ? error.stack : String(error)}`, isTaken: false };
  }
}

function describePrototypes(): string {
  return [Object, Array, String, Function, Map, Promise]
    .map(({ prototype }) => Reflect.ownKeys(prototype).map(String).join())
    .join(';');
}
