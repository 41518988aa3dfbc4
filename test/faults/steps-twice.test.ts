import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Child, type Said, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { postgresUrl } from '../support/postgres.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

const children = new WarmChildren('runner', 3);

const PLACES: readonly [kind: string, create: () => object, count: number][] = [
  ['sqlite', () => ({ kind: 'sqlite', path: join(temporaryFolder(), 'run.db') }), trials(40)],
  ['file', () => ({ kind: 'file', path: join(temporaryFolder(), 'run') }), trials(40)],
  [
    'postgres',
    () => ({
      kind: 'postgres',
      connectionString: postgresUrl(),
      schema: 'test_shared',
      tenant: randomUUID(),
      retryForMs: 5_000,
    }),
    trials(40),
  ],
];

/** A process that has the session open, and one that has begun the step. */
async function open(storage: object): Promise<Child> {
  const child = await children.next();
  child.tell({ storage });
  await child.heard('open');
  return child;
}

async function begin(child: Child): Promise<Said> {
  child.tell({});
  return child.heard('entered');
}

/** What a process that comes afterwards gets without running, or that it had to run. */
async function readLater(storage: object): Promise<unknown> {
  const child = await open(storage);
  child.tell({});
  const said = await Promise.race([child.heard('result'), child.heard('entered')]);
  return 'result' in said ? said.result : `attempt ${said.entered}`;
}

/** Two processes run one step without a lease, in an order by chance; either may be killed. Returns what broke the promise. */
async function runTwice(storage: object, random: ReturnType<typeof seededRandom>): Promise<string[]> {
  const first = await open(storage);
  const begun = [await begin(first)];
  const second = await open(storage);
  begun.push(await begin(second));
  const faults = new Set(begun.map(({ key }) => key)).size === 1 ? [] : ['the keys differ'];
  const results: unknown[] = [];
  for (const [at, child] of (random.below(2) === 0 ? [first, second] : [second, first]).entries()) {
    const act = random.pick(['answers', 'fails', 'is killed while it answers', 'is killed']);
    if (act !== 'is killed') child.tell({ fails: act === 'fails', answer: `of ${at}` });
    if (act.startsWith('is killed')) await child.kill();
    else await Promise.race([child.heard('result'), child.heard('error')]);
    const [{ result } = {}] = child.said.filter((said) => 'result' in said);
    if (result !== undefined) results.push(result);
  }
  const recorded = await readLater(storage);
  if (results.some((result) => result !== recorded))
    faults.push(`${JSON.stringify(results)} were returned, and later ${JSON.stringify(recorded)}`);
  return faults;
}

describe.each(PLACES)('one step in two processes on %s', (kind, create, count) => {
  test('[effect.2] a result that was returned is what every process gets from then on, also if one is killed', async () => {
    const random = seededRandom();
    const faults: string[] = [];
    for (let n = 0; n < count; n++) faults.push(...(await runTwice(create(), random)));
    reportFaults(`steps ${kind} in two processes`, { trials: count, failures: faults, notes: `seed=${random.seed}` });
    expect(faults).toEqual([]);
  });
});
