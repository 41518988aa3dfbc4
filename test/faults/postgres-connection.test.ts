import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import type { Random } from '../../src/testing/contract/random.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { freshSchema, postgresUrl } from '../support/postgres.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { openProxied } from '../support/proxied-postgres.ts';
import { findContradictions } from '../support/session-check.ts';
import { SessionLoad } from '../support/session-load.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { trials } from '../support/trials.ts';

const RETRY_FOR_MS = 600;
const TIMEOUT_MS = 250;
const MAX_SESSIONS = 8;
const SCHEMA = freshSchema();

/** What a fault breaks. The server is the trial's own only if the fault needs it. */
type Scene = { readonly proxy: TcpProxy; readonly server: PostgresServer; readonly random: Random };

type Fault = { readonly name: string; readonly needsServer?: true; readonly strike: (scene: Scene) => Promise<void> };

const pauseMs = (random: Random, { upTo }: { upTo: number }): Promise<void> => sleep(random.below(upTo));

const FAULTS: readonly [Fault, ...Fault[]] = [
  { name: 'cut', strike: async ({ proxy, random }) => proxy.cut(random.pick(['reset', 'end'])) },
  {
    name: 'cuts after some request bytes',
    strike: async ({ proxy, random }) => {
      for (let left = 1 + random.below(6); left > 0; left--) {
        proxy.cutAfterRequestBytes(1 + random.below(6_000));
        await pauseMs(random, { upTo: 60 });
      }
    },
  },
  {
    name: 'replies lost',
    strike: async ({ proxy, random }) => {
      for (let left = 1 + random.below(8); left > 0; left--) {
        proxy.cutOnNextReply({ skip: random.below(6) });
        await pauseMs(random, { upTo: 50 });
      }
    },
  },
  {
    name: 'stall',
    strike: async ({ proxy, random }) => {
      proxy.stall();
      await sleep(TIMEOUT_MS / 2 + random.below(RETRY_FOR_MS + 2 * TIMEOUT_MS));
      proxy.resume();
    },
  },
  {
    name: 'stall of the open connections',
    strike: async ({ proxy, random }) => {
      proxy.stallOpen();
      await sleep(random.below(2 * TIMEOUT_MS));
      proxy.resume();
    },
  },
  {
    name: 'replies dropped',
    strike: async ({ proxy, random }) => {
      proxy.dropReplies();
      await pauseMs(random, { upTo: 2 * TIMEOUT_MS });
    },
  },
  {
    name: 'connections refused',
    strike: async ({ proxy, random }) => {
      proxy.refuse(true);
      if (random.below(3) > 0) proxy.cut();
      else proxy.dropReplies();
      await pauseMs(random, { upTo: 2 * RETRY_FOR_MS });
      proxy.refuse(false);
    },
  },
  { name: 'restart', needsServer: true, strike: ({ server }) => server.restart() },
  {
    name: 'crash',
    needsServer: true,
    strike: async ({ server, random }) => {
      await server.kill();
      await pauseMs(random, { upTo: RETRY_FOR_MS });
      await server.restart();
    },
  },
];

type Trial = { readonly fault: Fault; readonly server: PostgresServer; readonly random: Random };

/** What went wrong, and how much was told and done in one trial. */
async function runTrial({ fault, server, random }: Trial): Promise<{ failures: string[]; counts: number[] }> {
  const { proxy, manager, observer, observed } = await openProxied({
    url: fault.needsServer ? server.url() : postgresUrl(),
    schema: SCHEMA,
    retryForMs: random.pick([0, 100, RETRY_FOR_MS]),
    timeoutMs: TIMEOUT_MS,
    maxConnections: 2 + random.below(9),
  });
  const loads = Array.from(
    { length: 1 + random.below(MAX_SESSIONS) },
    (_, at) => new SessionLoad(manager, { sessionId: `session-${at}`, random }),
  );
  let isOver = false;
  const running = loads.map((load) => load.runUntil(() => isOver));
  await pauseMs(random, { upTo: 150 });
  await fault.strike({ proxy, server, random });
  await pauseMs(random, { upTo: 50 });
  isOver = true;
  await Promise.all(running);
  proxy.disarm();
  for (const load of loads) await load.goOn();
  const failures: string[] = [];
  for (const { diary } of loads) failures.push(...(await findContradictions(observed, diary)));
  const { findings } = await observer.verify({ readData: true });
  failures.push(...findings.map(({ subject, problem }) => `${subject}: ${problem}`));
  const told = loads.flatMap(({ diary }) => [...diary.saves.values()].map((save) => save.told));
  return { failures, counts: ['done', 'refused', 'unknown'].map((word) => told.filter((one) => one === word).length) };
}

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start();
  return () => server.close();
});

test('[postgres.5] whatever happens to connections: nothing acknowledged is lost, nothing is stored twice or against its word', async () => {
  const random = seededRandom();
  const total = trials(200);
  const failures: string[] = [];
  const sums = [0, 0, 0];
  for (let trial = 0; trial < total; trial++) {
    const fault = FAULTS[trial % FAULTS.length] ?? FAULTS[0];
    const outcome = await runTrial({ fault, server, random });
    failures.push(...outcome.failures.map((failure) => `trial ${trial}, ${fault.name}: ${failure}`));
    for (const [at, count] of outcome.counts.entries()) sums[at] = (sums[at] ?? 0) + count;
  }
  const [done, refused, unknown] = sums;
  reportFaults('postgres connections broken', {
    trials: total,
    failures,
    notes: `saves=${done} refused=${refused} unknown=${unknown} seed=${random.seed}`,
  });
  expect(failures).toEqual([]);
  expect(done).toBeGreaterThan(total);
});
