import { builtFolder } from './on-demand.ts';

/** The folder of the built library. Whoever imports this waits for the build before its first test begins, so no test runs out of time over it. */
export const BUILT = builtFolder();
