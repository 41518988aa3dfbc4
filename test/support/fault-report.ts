import { onTestFailed } from 'vitest';
import { createRandom, type Random } from '../../src/testing/contract/random.ts';

/** Whether the loops run at their full counts (`npm run test:faults`). */
export const IS_FULL = process.env.SAVESTATE_TRIALS === 'full';

/** Random choices of one test. Repeat a failed run with the seed it prints: `SAVESTATE_SEED=... npx vitest run ...`. */
export function seededRandom(): Random & { readonly seed: number } {
  const seed = Number(process.env.SAVESTATE_SEED ?? Date.now() % 1_000_000_007);
  onTestFailed(() => console.log(`SAVESTATE_SEED=${seed}`));
  if (IS_FULL) console.log(`SAVESTATE_SEED=${seed}`); // also where the process does not live to tell
  return { ...createRandom(seed), seed };
}

type Outcome = { readonly trials: number; readonly failures: readonly string[]; readonly notes?: string };

/** Prints what a loop did, for docs/GUARANTEES.md: without a failure, the true rate is below 3/n at 95 % confidence. */
export function reportFaults(name: string, { trials, failures, notes = '' }: Outcome): void {
  const bound = `${Number((300 / trials).toPrecision(2))}%`;
  console.log(`FAULTS ${name}: n=${trials} failures=${failures.length} bound95=${bound} ${notes}`.trimEnd());
  for (const failure of failures.slice(0, 10)) console.log(`  ${failure}`);
}
