import { spawnSync } from 'node:child_process';
import { inject } from 'vitest';
import './on-demand-global.ts';

const ASK =
  'fetch(process.argv[1]).then(async (answer) => { process.exitCode = answer.ok ? 0 : 1; console.log(await answer.text()); })';

const made = new Map<string, string>();

/** The folder of the built library, for tests that start processes. The first test of a run that asks builds it, if a source is newer. */
export const builtFolder = (): string => demand('/built');

/** The superuser's address of this worker's database server, which is started when the first test asks for it. */
export const postgresUrl = (): string => demand(`/postgres/${process.env.VITEST_POOL_ID}`);

function demand(path: string): string {
  const known = made.get(path);
  if (known !== undefined) return known;
  const asked = spawnSync(process.execPath, ['-e', ASK, `${inject('onDemand')}${path}`], { encoding: 'utf8' });
  if (asked.status !== 0) throw new Error(`${asked.stdout}${asked.stderr}`);
  made.set(path, asked.stdout.trim());
  return asked.stdout.trim();
}
