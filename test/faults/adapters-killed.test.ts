import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SavestateSessionStore } from '../../src/adapter/claude/index.ts';
import { SavestateSession } from '../../src/adapter/openai-agents/index.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import type { Random } from '../../src/testing/contract/random.ts';
import { type Child, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { postgresUrl } from '../support/postgres.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

type Place = { readonly config: object; readonly open: () => ChunkStorage };

const PLACES: readonly [kind: string, create: () => Place][] = [
  [
    'sqlite',
    () => {
      const path = join(temporaryFolder(), 'kills.db');
      return { config: { kind: 'sqlite', path }, open: () => new SqliteCheckpointStorage({ path }) };
    },
  ],
  [
    'file',
    () => {
      const path = join(temporaryFolder(), 'kills');
      return { config: { kind: 'file', path }, open: () => new FileCheckpointStorage({ path }) };
    },
  ],
  [
    'postgres',
    () => {
      const options = { connectionString: postgresUrl(), schema: 'test_shared', tenant: randomUUID() };
      return { config: { kind: 'postgres', ...options }, open: () => new PostgresCheckpointStorage(options) };
    },
  ],
];

const ROUNDS = 4;
const appenders = new WarmChildren('appender');
const runners = new WarmChildren('agent-runner');

const idsIn: Record<string, (storage: ChunkStorage) => Promise<unknown[]>> = {
  claude: async (storage) =>
    ((await new SavestateSessionStore(storage).load({ projectKey: 'shop', sessionId: 'one' })) ?? []).map(
      ({ uuid }) => uuid,
    ),
  openai: async (storage) =>
    (await new SavestateSession(storage, 'one').getItems()).map((item) => ('id' in item ? item.id : undefined)),
};

/** Two writers of one transcript are killed and started again; what was acknowledged is there, once, each writer's in its order. */
async function killAppenders(adapter: string, place: Place, random: Random): Promise<string[]> {
  const acknowledged = new Map([
    ['a', -1],
    ['b', -1],
  ]);
  for (let round = 0; round < ROUNDS; round++) {
    const started: [string, Child][] = [];
    for (const writer of acknowledged.keys()) started.push([writer, await appenders.next()]);
    for (const [writer, child] of started) child.tell({ storage: place.config, adapter, writer });
    if (round > 0 || random.below(3) > 0) await Promise.all(started.map(([, child]) => child.heard('stored')));
    await sleep(random.below(60));
    await Promise.all(started.map(([, child]) => child.kill()));
    for (const [writer, child] of started)
      for (const { stored } of child.said)
        if (stored !== undefined) acknowledged.set(writer, Math.max(acknowledged.get(writer) ?? -1, Number(stored)));
  }
  const storage = place.open();
  try {
    const ids = (await idsIn[adapter]?.(storage)) ?? [];
    const { findings } = await new CheckpointManager({ storage }).verify();
    const faults = findings.map(({ subject, problem }) => `${subject}: ${problem}`);
    for (const [writer, last] of acknowledged) {
      const own = ids.filter((id) => String(id).startsWith(`${writer}-`));
      const expected = own.map((_, n) => `${writer}-${n}`);
      if (own.join() !== expected.join()) faults.push(`${writer} has ${own.join()}`);
      if (own.length < last + 1) faults.push(`${writer} was told of ${last + 1} and has ${own.length}`);
    }
    return faults;
  } finally {
    await storage.close();
  }
}

/** A run is killed again and again until one is left alone: nothing that was recorded is done again, and keys stay. */
async function killRun(place: Place, random: Random): Promise<string[]> {
  const calls = 5;
  const keys = new Map<number, Set<unknown>>();
  let isDone = false;
  for (let attempt = 0; !isDone; attempt++) {
    const child = await runners.next();
    child.tell({ storage: place.config, calls });
    if (attempt < 3) {
      const wanted = ['asked', 'paid'][random.below(2)] ?? 'asked';
      await child.heard(wanted).catch(() => undefined); // it may end without: all may be recorded
      await sleep(random.below(40));
      await child.kill();
    } else await child.ended;
    for (const said of child.said) {
      if (said.paid !== undefined)
        keys.set(Number(said.paid), (keys.get(Number(said.paid)) ?? new Set()).add(said.key));
      isDone ||= said.finalOutput === 'All paid.';
    }
    if (attempt >= 3 && !isDone) return [`the run did not end: ${child.stderr}`];
  }
  const storage = place.open();
  try {
    const items = await new SavestateSession(storage, 'run').getItems();
    const { findings } = await new CheckpointManager({ storage }).verify();
    const faults = findings.map(({ subject, problem }) => `${subject}: ${problem}`);
    if (items.length !== 2 + 2 * calls) faults.push(`the history has ${items.length} items`);
    for (const [n, found] of keys) if (found.size !== 1) faults.push(`part ${n} was paid under ${found.size} keys`);
    if (keys.size !== calls) faults.push(`${keys.size} parts were paid`);
    return faults;
  } finally {
    await storage.close();
  }
}

describe.each(PLACES)('in %s', (kind, create) => {
  test.each(['claude', 'openai'])('two writers of a transcript are killed: %s', async (adapter) => {
    const [n, random] = [trials(20), seededRandom()];
    const failures: string[] = [];
    for (let trial = 0; trial < n; trial++) failures.push(...(await killAppenders(adapter, create(), random)));
    reportFaults(`${adapter} transcripts, two writers killed, ${kind}`, {
      trials: n * ROUNDS * 2,
      failures,
      notes: `seed=${random.seed}`,
    });
    expect(failures).toEqual([]);
  });

  test('a run is killed again and again', async () => {
    const [n, random] = [trials(20), seededRandom()];
    const failures: string[] = [];
    for (let trial = 0; trial < n; trial++) failures.push(...(await killRun(create(), random)));
    reportFaults(`recorded runs killed, ${kind}`, { trials: 3 * n, failures, notes: `seed=${random.seed}` });
    expect(failures).toEqual([]);
  });
});
