import { availableParallelism } from 'node:os';

/** How many test files run at once: one for each core, because many wait for processes and disks; each has a database server of its own. */
export const WORKERS = Math.min(4, availableParallelism());

/** What is waited for comes: vitest's own second is too short on a busy machine. */
export const POLLS = { poll: { timeout: 60_000 } };

/** Each project of a run would transform the same modules again. What is kept is named after its content. */
export const MODULE_CACHE = { fsModuleCache: true, fsModuleCachePath: 'node_modules/.cache/tests' };
