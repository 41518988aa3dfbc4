import { availableParallelism } from 'node:os';

/** How many test files run at once: one for each core, because many wait for processes and disks; each has a database server of its own. */
export const WORKERS = Math.min(4, availableParallelism());

/** Each project of a run would transform the same modules again. What is kept is named after its content. */
export const MODULE_CACHE = { fsModuleCache: true, fsModuleCachePath: 'node_modules/.cache/tests' };
