import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { Child } from '../support/child.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';

/** `SAVESTATE_SOAK_MINUTES=60 npm run test:faults -- test/faults/soak.test.ts` runs it for an hour. */
const MINUTES = Number(process.env.SAVESTATE_SOAK_MINUTES ?? (IS_FULL ? 10 : 0.25));
/** Until there are enough samples on a machine that is busy with other things, and for the look at all that is stored. */
const TIMEOUT_MS = (MINUTES + 30) * 60_000;
const MIN_SAMPLES = 12;
const WORKERS = 2;

const MEASURES = { heapBytes: 8e6, handles: 8, timers: 8, fileBytes: 4e6 } as const;
type Sample = Readonly<Record<keyof typeof MEASURES, number>>;

/** What is larger in the second half than in the first, by more than a seventh and what always moves. The beginning does not count. */
function findGrowth(samples: readonly Sample[]): string[] {
  const settled = samples.slice(Math.floor(samples.length / 3));
  const half = Math.floor(settled.length / 2);
  return Object.entries(MEASURES).flatMap(([name, slack]) => {
    const values = settled.map((sample) => sample[name as keyof Sample]);
    const [before, after] = [median(values.slice(0, half)), median(values.slice(half))];
    return after > before * 1.15 + slack ? [`${name} grew from ${before} to ${after}`] : [];
  });
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

test('agents, forks, prunes, gc, a server and kills for a while: nothing grows, and all is whole', {
  timeout: TIMEOUT_MS,
}, async () => {
  const random = seededRandom();
  const storage = { kind: 'sqlite', path: join(temporaryFolder(), 'soak.db'), durability: 'process' } as const;
  const start = async (name: string, serves = false): Promise<Child> => {
    const child = new Child('soaker', { env: { NODE_OPTIONS: '--expose-gc' } });
    await child.heard('ready');
    child.tell({ storage, name, serves });
    return child;
  };
  const server = await start('server', true);
  const workers = await Promise.all(Array.from({ length: WORKERS }, (_, n) => start(`worker ${n}`)));
  const samples = () => server.said.filter((said) => 'heapBytes' in said) as unknown as Sample[];
  const faults: string[] = [];
  let kills = 0;
  let isOver = false;
  server.ended.then(() => {
    if (!isOver) faults.push(`the server ended: ${server.stderr}`);
  });
  for (const untilMs = Date.now() + MINUTES * 60_000; Date.now() < untilMs || samples().length < MIN_SAMPLES; ) {
    await sleep(1_000 + random.below(2_000));
    if (faults.length > 0) break;
    const at = random.below(WORKERS);
    const { signal } = (await workers[at]?.kill()) ?? {};
    if (signal !== 'SIGKILL') faults.push(`a worker ended by itself: ${workers[at]?.stderr}`);
    workers[at] = await start(`worker ${at}`);
    kills++;
  }
  isOver = true;
  for (const child of [server, ...workers]) await child.kill();
  faults.push(...findGrowth(samples()));
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: storage.path }) });
  const { findings, checkpoints } = await manager.verify();
  await manager.close();
  faults.push(...findings.map(({ subject, problem }) => `${subject}: ${problem}`));
  const rounds = server.said.findLast((said) => 'round' in said)?.round;
  reportFaults('soak', {
    trials: samples().length,
    failures: faults,
    notes: `minutes=${MINUTES} rounds=${rounds} kills=${kills} checkpoints=${checkpoints} last=${JSON.stringify(samples().at(-1))} seed=${random.seed}`,
  });
  expect(faults).toEqual([]);
});

test('growth is noticed', () => {
  const flat = Array.from({ length: 30 }, (_, n) => ({
    heapBytes: 3e7 + (n % 3) * 1e6,
    handles: 30 + (n % 2),
    timers: 10,
    fileBytes: 1e7,
  }));
  expect(findGrowth(flat)).toEqual([]);
  expect(findGrowth(flat.map((sample, n) => ({ ...sample, heapBytes: 3e7 + n * 3e6 })))).toHaveLength(1);
  expect(findGrowth(flat.map((sample, n) => ({ ...sample, handles: 30 + n * 2 })))).toHaveLength(1);
});
