/** What `vitest.faults.config.ts` sets; without it, these are the ordinary tests. */
const PARTS: Readonly<Record<string, number>> = { full: 1, tenth: 10 };
const part = PARTS[process.env.SAVESTATE_TRIALS ?? ''];

/** How many trials a loop gets: all of them in `npm run test:faults`, a tenth for each change, a hundredth in `npm test`. */
export function trials(full: number): number {
  return Math.ceil(full / (part ?? 100));
}

/** Loops over every commit at which a process may die look at each in the fault loops, and at one of five in `npm test`. */
export const STRIDE = part === undefined ? 5 : 1;

/** How a property is checked: with as many trials; in `npm test` with the same values each time, so that none fails by chance. */
export function drawn(full: number): { readonly numRuns: number; readonly seed?: number } {
  return { numRuns: trials(full), ...(part === undefined && { seed: 20_261_117 }) };
}
