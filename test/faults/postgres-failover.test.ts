import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import type { Random } from '../../src/testing/contract/random.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { PostgresPair } from '../support/postgres-pair.ts';
import { countLost, findContradictions, findUnsound } from '../support/session-check.ts';
import { type Action, SessionLoad } from '../support/session-load.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const PROCESSES = 2;
const SESSIONS_PER_PROCESS = 3;
/** How many saves are acknowledged before the kill, at least, and by the new primary. */
const SAVES = 30;
const WAIT = { interval: 1, timeout: 600_000 };

type FailoverOptions = {
  readonly synchronous: boolean;
  readonly random: Random;
  readonly actions?: readonly [Action, ...Action[]];
};

/** Sessions that work on through the death of a primary, by one address and with the storages they have. */
class Failover {
  readonly loads: SessionLoad[] = [];
  /** From the death of the primary to the first save that its successor acknowledged. */
  gapMs = Number.NaN;
  readonly #random: Random;
  readonly #pair: PostgresPair;
  readonly #proxy: TcpProxy;
  readonly #managers: CheckpointManager[] = [];
  #storedCount = 0;
  #lastStoredMs = 0;

  private constructor(pair: PostgresPair, proxy: TcpProxy, { random, actions }: FailoverOptions) {
    this.#random = random;
    this.#pair = pair;
    this.#proxy = proxy;
    const connectionString = proxy.urlFor(pair.primary.url());
    const onStored = () => {
      this.#storedCount++;
      this.#lastStoredMs = performance.now();
    };
    for (let at = 0; at < PROCESSES * SESSIONS_PER_PROCESS; at++) {
      if (at % SESSIONS_PER_PROCESS === 0) this.#managers.push(openManager(connectionString));
      const manager = this.#managers.at(-1) as CheckpointManager;
      const options = { sessionId: `session-${at}`, random, onStored, ...(actions !== undefined && { actions }) };
      this.loads.push(new SessionLoad(manager, options));
    }
  }

  static async start(options: FailoverOptions): Promise<Failover> {
    const pair = await PostgresPair.start({ synchronous: options.synchronous });
    const failover = new Failover(pair, await TcpProxy.listen({ target: pair.primary }), options);
    onTestFinished(() => failover.close());
    return failover;
  }

  async run(): Promise<void> {
    let isOver = false;
    const running = Promise.all(this.loads.map((load) => load.runUntil(() => isOver)));
    await vi.waitUntil(() => this.#storedCount >= SAVES, WAIT);
    await sleep(this.#random.below(100));
    const killMs = performance.now();
    await this.#pair.killPrimary();
    await this.#pair.promote();
    const before = this.#storedCount;
    this.#proxy.retarget(this.#pair.standby);
    await vi.waitUntil(() => this.#storedCount > before, WAIT);
    this.gapMs = this.#lastStoredMs - killMs;
    await vi.waitUntil(() => this.#storedCount >= before + SAVES, WAIT);
    isOver = true;
    await running;
    for (const load of this.loads) await load.goOn();
  }

  get acknowledged(): number {
    return this.loads.reduce((sum, { diary }) => sum + [...diary.saves.values()].filter(isDone).length, 0);
  }

  /** Asks the new primary itself; `inspect` answers what is wrong with a session. */
  async look(inspect: (storage: PostgresCheckpointStorage, load: SessionLoad) => Promise<string[]>): Promise<string[]> {
    const storage = openStorage(this.#pair.standby.url());
    const manager = new CheckpointManager({ storage });
    const problems: string[] = [];
    for (const load of this.loads) problems.push(...(await inspect(storage, load)));
    const { findings } = await manager.verify({ readData: true });
    await manager.close();
    return [...problems, ...findings.map(({ subject, problem }) => `${subject}: ${problem}`)];
  }

  /** Can be called again. */
  async close(): Promise<void> {
    await Promise.all(this.#managers.map((manager) => manager.close()));
    await this.#proxy.close();
    await this.#pair.close();
  }
}

/** How a session is told that what it stands on is lost. */
const TOLD = /^save \d+: ConflictError: (Branch "main" |Checkpoint chk_\w+ is not there any more)/;

const isDone = ({ told }: { readonly told: string }): boolean => told === 'done';

function openStorage(connectionString: string): PostgresCheckpointStorage {
  return new PostgresCheckpointStorage({ connectionString, tenant: 'acme', retryForMs: 60_000, timeoutMs: 2_000 });
}

function openManager(connectionString: string): CheckpointManager {
  return new CheckpointManager({ storage: openStorage(connectionString) });
}

function describeGaps(gapsMs: readonly number[]): string {
  const sorted = gapsMs.map(Math.round).sort((a, b) => a - b);
  return `gapMs median=${sorted[Math.floor(sorted.length / 2)]} max=${sorted.at(-1)}`;
}

test('[postgres.5] a synchronous failover loses nothing acknowledged, stores nothing twice, and is survived by sessions as they are', async () => {
  const random = seededRandom();
  const total = IS_FULL ? 50 : 2;
  const failures: string[] = [];
  const gapsMs: number[] = [];
  let saves = 0;
  for (let trial = 0; trial < total; trial++) {
    const failover = await Failover.start({ synchronous: true, random });
    await failover.run();
    failures.push(...(await failover.look((storage, { diary }) => findContradictions(storage, diary))));
    gapsMs.push(failover.gapMs);
    saves += failover.acknowledged;
    await failover.close();
  }
  const notes = `saves=${saves} ${describeGaps(gapsMs)} seed=${random.seed}`;
  reportFaults('postgres synchronous failover', { trials: total, failures, notes });
  expect(failures).toEqual([]);
});

test('[postgres.5] an asynchronous failover may lose the last saves; what is left is whole, and who stood on them is told', async () => {
  const random = seededRandom();
  const total = IS_FULL ? 10 : 2;
  const failures: string[] = [];
  const lost: number[] = [];
  const gapsMs: number[] = [];
  let conflicts = 0;
  for (let trial = 0; trial < total; trial++) {
    const failover = await Failover.start({ synchronous: false, random, actions: ['save'] });
    await failover.run();
    let lostNow = 0;
    const problems = await failover.look(async (storage, { diary }) => {
      const gone = await countLost(storage, diary);
      const told = diary.surprises.filter((surprise) => TOLD.test(surprise));
      lostNow += gone;
      conflicts += told.length;
      const untold = diary.surprises.filter((surprise) => !told.includes(surprise));
      const isSilent = gone > 0 && told.length === 0;
      return [...untold, ...(isSilent ? ['lost saves silently'] : []), ...(await findUnsound(storage, diary))];
    });
    failures.push(...problems);
    lost.push(lostNow);
    gapsMs.push(failover.gapMs);
    await failover.close();
  }
  const notes = `lost per failover=${lost.join(',')} conflicts=${conflicts} ${describeGaps(gapsMs)} seed=${random.seed}`;
  reportFaults('postgres asynchronous failover', { trials: total, failures, notes });
  expect(failures).toEqual([]);
});

test('[postgres.5] a session whose last saves a failover lost gets a conflict, and goes on from what is left once it is opened again', async () => {
  const pair = await PostgresPair.start({ synchronous: false });
  const proxy = await TcpProxy.listen({ target: pair.primary });
  const manager = openManager(proxy.urlFor(pair.primary.url()));
  onTestFinished(() => Promise.all([manager.close(), proxy.close(), pair.close()]).then(() => undefined));
  const [behind, idle] = [await manager.session('behind'), await manager.session('idle')];
  for (const session of [behind, idle]) await session.save({ turn: 1 });
  await pair.waitUntilCaughtUp();
  await stopSending(pair);
  for (const turn of [2, 3]) await behind.save({ turn });
  await pair.killPrimary();
  await pair.promote();
  proxy.retarget(pair.standby);
  await expect(behind.save({ turn: 4 })).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringMatching(/^Checkpoint chk_\w+ is not there any more.*Open the session again/),
  });
  await idle.save({ turn: 2 });
  const again = await manager.session('behind');
  expect(again.state).toEqual({ turn: 1 });
  await again.save({ turn: 5 });
  expect((await manager.verify({ readData: true })).findings).toEqual([]);
});

/** From here on the standby gets nothing more. */
async function stopSending({ primary }: PostgresPair): Promise<void> {
  const client = await primary.connect();
  const { rows } = await client.query<{ pid: number }>('SELECT pid FROM pg_stat_replication');
  await client.end();
  for (const { pid } of rows) process.kill(pid, 'SIGSTOP');
}
