import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { resumableStreams } from '../../src/adapter/ai-sdk/index.ts';
import { SavestateSessionStore } from '../../src/adapter/claude/index.ts';
import { SavestateSession } from '../../src/adapter/openai-agents/index.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import type { Random } from '../../src/testing/contract/random.ts';
import { type Child, type Said, WarmChildren } from '../support/child.ts';
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
      // Kills are no power cuts; a sync for each append would make this a test of the disk.
      const options = { path, durability: 'process' } as const;
      return { config: { kind: 'sqlite', ...options }, open: () => new SqliteCheckpointStorage(options) };
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

const KILLS = 6;
const WRITERS = ['a', 'b'];
const appenders = new WarmChildren('appender', 1);
const streamers = new WarmChildren('streamer', 0);

const idsIn: Record<string, (storage: ChunkStorage) => Promise<unknown[]>> = {
  claude: async (storage) =>
    ((await new SavestateSessionStore(storage).load({ projectKey: 'shop', sessionId: 'one' })) ?? []).map(
      ({ uuid }) => uuid,
    ),
  openai: async (storage) =>
    (await new SavestateSession(storage, 'one').getItems()).map((item) => ('id' in item ? item.id : undefined)),
  chat: async (storage) =>
    (await loadState<{ items: { id: string }[] }>(storage, 'ai-sdk/one')).items.map(({ id }) => id),
};

function loadState<State>(storage: ChunkStorage, sessionId: string): Promise<State> {
  return new CheckpointManager({ storage }).load<State>({ sessionId, at: '@' });
}

/** Agents that are killed in the middle, and what is left of their runs. */
const RUNNERS: Record<string, [children: WarmChildren, read: (storage: ChunkStorage) => Promise<readonly unknown[]>]> =
  {
    'OpenAI Agents': [
      new WarmChildren('agent-runner', 1),
      (storage) => new SavestateSession(storage, 'run').getItems(),
    ],
    'the AI SDK': [
      new WarmChildren('ai-runner', 1),
      async (storage) => (await loadState<{ messages: unknown[] }>(storage, 'run')).messages,
    ],
  };

type Acknowledged = ReadonlyMap<string, Said[]>;

async function hasWritten(child: Child | undefined): Promise<void> {
  for (const adapter of Object.keys(idsIn)) await child?.heard(adapter);
}

/** Two writers of two transcripts, of which one is killed and started again beside the other; in the end both. */
async function killAppenders(place: Place, random: Random): Promise<Acknowledged> {
  const said = new Map<string, Said[]>(WRITERS.map((writer) => [writer, []]));
  const start = async (writer: string): Promise<Child> => {
    const child = await appenders.next();
    child.tell({ storage: place.config, writer });
    return child;
  };
  const kill = async (writer: string, child: Child | undefined): Promise<void> => {
    await child?.kill();
    said.get(writer)?.push(...(child?.said ?? []));
  };
  const running = new Map<string, Child>();
  for (const writer of WRITERS) running.set(writer, await start(writer));
  for (let kills = 0; kills < KILLS; kills++) {
    const writer = WRITERS[random.below(2)] ?? 'a';
    const child = running.get(writer);
    if (random.below(4) > 0) await hasWritten(child); // else it may die before its first item
    await sleep(random.below(60));
    await kill(writer, child);
    running.set(writer, await start(writer));
  }
  // None is kept from writing by what a dead one left.
  for (const child of running.values()) await hasWritten(child);
  for (const [writer, child] of running) await kill(writer, child);
  return said;
}

/** What was acknowledged is there, once, each writer's in its order. */
async function checkTranscripts(place: Place, acknowledged: Acknowledged): Promise<string[]> {
  const storage = place.open();
  try {
    const { findings } = await new CheckpointManager({ storage }).verify();
    const faults = findings.map(({ subject, problem }) => `${subject}: ${problem}`);
    for (const [adapter, read] of Object.entries(idsIn)) {
      const ids = await read(storage);
      for (const [writer, said] of acknowledged) {
        const own = ids.filter((id) => String(id).startsWith(`${writer}-`));
        const expected = own.map((_, n) => `${writer}-${n}`);
        if (own.join() !== expected.join()) faults.push(`${adapter}: ${writer} has ${own.join()}`);
        const last = Math.max(-1, ...said.flatMap(({ [adapter]: n }) => (n === undefined ? [] : [Number(n)])));
        if (own.length < last + 1) faults.push(`${adapter}: ${writer} was told of ${last + 1} and has ${own.length}`);
      }
    }
    return faults;
  } finally {
    await storage.close();
  }
}

/** A run is killed again and again until one is left alone: nothing that was recorded is done again, and keys stay. */
async function killRun(place: Place, random: Random, of: string): Promise<string[]> {
  const [runners, read] = RUNNERS[of] as (typeof RUNNERS)[string];
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
      isDone ||= said.isDone === true;
    }
    if (attempt >= 3 && !isDone) return [`the run did not end: ${child.stderr}`];
  }
  const storage = place.open();
  try {
    const items = await read(storage);
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

/** A stream whose process is killed ends with an error for who follows it, after all that was seen; and the same for who comes later. */
async function killStream(place: Place, random: Random): Promise<string[]> {
  const child = await streamers.next();
  child.tell({ storage: place.config });
  await child.heard('begun');
  const storage = place.open();
  try {
    const streams = resumableStreams(storage);
    const followed = (await streams.resume('chat')).body as unknown as AsyncIterable<Uint8Array>;
    const decoder = new TextDecoder();
    let seen = '';
    for await (const bytes of followed) {
      if (seen === '') void sleep(random.below(60)).then(() => child.kill());
      seen += decoder.decode(bytes);
    }
    const faults = (await (await streams.resume('chat')).text()) === seen ? [] : ['who came later saw something else'];
    const [done, error, ...parts] = seen.trimEnd().split('\n\n').reverse();
    const deltas = parts.reverse().map((part) => part.match(/"delta":"(\d+) "/)?.[1]);
    if (deltas.length === 0 || deltas.join() !== [...deltas.keys()].join()) faults.push(`it has ${deltas.join()}`);
    if (done !== 'data: [DONE]' || error?.includes('ended before the answer was complete') !== true)
      faults.push(`it ends with ${error} ${done}`);
    return faults;
  } finally {
    await storage.close();
  }
}

describe.each(PLACES)('in %s', (kind, create) => {
  test('two writers of transcripts are killed', async () => {
    const [n, random] = [trials(10), seededRandom()];
    const failures: string[] = [];
    for (let trial = 0; trial < n; trial++) {
      const place = create();
      failures.push(...(await checkTranscripts(place, await killAppenders(place, random))));
    }
    reportFaults(`transcripts of three adapters, two writers killed, ${kind}`, {
      trials: n * (KILLS + WRITERS.length),
      failures,
      notes: `seed=${random.seed}`,
    });
    expect(failures).toEqual([]);
  });

  test.each(Object.keys(RUNNERS))('a run of %s is killed again and again', async (of) => {
    const [n, random] = [trials(10), seededRandom()];
    const failures: string[] = [];
    for (let trial = 0; trial < n; trial++) failures.push(...(await killRun(create(), random, of)));
    reportFaults(`recorded runs of ${of} killed, ${kind}`, { trials: 3 * n, failures, notes: `seed=${random.seed}` });
    expect(failures).toEqual([]);
  });

  test('a process that streams an answer is killed', async () => {
    const [n, random] = [trials(10), seededRandom()];
    const failures: string[] = [];
    for (let trial = 0; trial < n; trial++) failures.push(...(await killStream(create(), random)));
    reportFaults(`streams killed, ${kind}`, { trials: n, failures, notes: `seed=${random.seed}` });
    expect(failures).toEqual([]);
  });
});
