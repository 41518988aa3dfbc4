import { expect } from 'vitest';
import { SavestateError } from '../../../src/core/errors.ts';
import { createRandom, type Random } from '../../../src/testing/contract/random.ts';
import { processorMs } from '../../support/clock.ts';
import { reportFaults } from '../../support/fault-report.ts';

/** No input of these sizes may cost more than reading and writing so much JSON; most cost less than a thousandth of it. */
const MAX_MEGABYTES = 200;
const MEGABYTE = JSON.stringify(Array.from({ length: 10_000 }, (_, n) => ({ n, text: 'x'.repeat(80) })));
/** What takes less is not measured again. */
const SUSPECT_MS = 200;

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
    const startedMs = processorMs();
    const { fault, isTaken } = await judge(() => run(input));
    if (isTaken) taken++;
    const isSuspect = processorMs() - startedMs > SUSPECT_MS;
    const faults = [fault, isSuspect ? await findSlow(() => judge(() => run(input))) : undefined];
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

/** Compares processor times of one moment, because they depend on the machine and on what else it does: the least of some, that of the input first. */
async function findSlow(run: () => unknown): Promise<string | undefined> {
  const busyMs = await leastMs(run);
  const megabytes = busyMs / (await leastMs(() => JSON.stringify(JSON.parse(MEGABYTE))));
  if (megabytes <= MAX_MEGABYTES) return undefined;
  return `it took ${Math.round(busyMs)} ms of processor time, as much as ${Math.round(megabytes)} MB of JSON`;
}

async function leastMs(work: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const startedMs = processorMs();
    await work();
    times.push(processorMs() - startedMs);
  }
  return Math.min(...times);
}

function describePrototypes(): string {
  return [Object, Array, String, Function, Map, Promise]
    .map(({ prototype }) => Reflect.ownKeys(prototype).map(String).join())
    .join(';');
}
