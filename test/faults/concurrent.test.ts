import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Tombstone } from '../../src/core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../src/core/record/id.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { isFoldedInto } from '../../src/manager/engine/records.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { Child } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { type Picked, pickedState } from './children/states.mjs';

type Kind = 'sqlite' | 'file';
type Logged = {
  readonly id: string;
  readonly session: string;
  readonly branch: string;
  readonly sequence: number;
  readonly picks: readonly number[];
  readonly isTagged: boolean;
};

const WRITERS = ['a', 'b', 'c'];
const RUN_MS = trials(60_000);

/** Keeps one program running: whenever it is killed, another process takes its place. */
class Relay {
  readonly #program: string;
  readonly #config: () => object;
  #child: Child | undefined;
  kills = 0;
  readonly faults: string[] = [];
  readonly said: Child['said'][] = [];

  constructor(program: string, config: () => object) {
    this.#program = program;
    this.#config = config;
  }

  async start(): Promise<void> {
    const child = new Child(this.#program);
    this.#child = child;
    this.said.push(child.said);
    await child.heard('ready');
    child.tell(this.#config());
  }

  async kill(): Promise<void> {
    const child = this.#child;
    const { signal } = (await child?.kill()) ?? {};
    this.kills++;
    if (signal !== 'SIGKILL') this.faults.push(`${this.#program} ended by itself: ${child?.stderr}`);
  }
}

function openStorage(kind: Kind, path: string): ChunkStorage {
  return kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
}

function readLog(path: string): Logged[] {
  if (!existsSync(path)) return [];
  // A kill may have cut the last line short.
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Logged);
}

/** Everything that is still there must be what was saved, and what was acknowledged must be there, be a tombstone, or be folded into one. */
async function findFaults(manager: CheckpointManager, logged: readonly Logged[]): Promise<string[]> {
  const faults: string[] = [];
  const verified = await manager.verify();
  faults.push(...verified.findings.map(({ subject, problem }) => `${subject}: ${problem}`));
  const live = new Set<string>();
  const known = new Set<string>();
  const tombstones: Tombstone[] = [];
  const sessionIds = [...WRITERS.map((writer) => `own-${writer}`), 'shared'];
  for (const sessionId of sessionIds) {
    const tree = await manager.tree(sessionId);
    for (const { id, checkpoint, tombstone } of tree.nodes.values()) {
      known.add(id);
      if (tombstone !== undefined) tombstones.push(tombstone);
      if (checkpoint === undefined) continue;
      live.add(id);
      const state = (await manager.load(id)) as Picked;
      if (!isSameValue(state, pickedState(state))) faults.push(`${id} of ${sessionId} is not what was saved`);
    }
    for (const { branch, headId } of tree.branches)
      if (!live.has(headId)) faults.push(`branch ${branch} lost its head`);
  }
  const heads = new Map<string, Logged>();
  for (const entry of logged) {
    const isFolded = () =>
      tombstones.some((tombstone) => isFoldedInto(tombstone, { ...entry, id: entry.id as CheckpointId }));
    if (!known.has(entry.id) && !isFolded()) faults.push(`${entry.id} was acknowledged and has vanished`);
    if (entry.isTagged && !live.has(entry.id)) faults.push(`${entry.id} was tagged and was deleted`);
    if (live.has(entry.id)) {
      const { picks } = (await manager.load(entry.id)) as Picked;
      if (!isSameValue(picks, entry.picks)) faults.push(`${entry.id} has another state than was acknowledged`);
    }
    const place = `${entry.session} ${entry.branch}`;
    if ((heads.get(place)?.sequence ?? 0) <= entry.sequence) heads.set(place, entry);
  }
  for (const { session, branch, sequence, id } of heads.values()) {
    const head = (await manager.session(session, { branch })).head;
    if (head === undefined || head.sequence < sequence) faults.push(`branch ${branch} of ${session} is behind ${id}`);
  }
  return faults;
}

describe.each<Kind>(['sqlite', 'file'])('three writers and a cleaner on one %s', (kind) => {
  test('[durability.4] with kills in between: all is whole, nothing reachable is lost', async () => {
    const random = seededRandom();
    const folder = temporaryFolder();
    const storage = { kind, path: join(folder, 'shared'), ...(random.below(2) === 0 && { durability: 'process' }) };
    const writers = WRITERS.map(
      (writer) =>
        new Relay('writer', () => ({
          storage,
          writer,
          log: join(folder, `${writer}.log`),
          seed: random.below(2 ** 31),
        })),
    );
    const cleaner = new Relay('cleaner', () => ({ storage }));
    const relays = [...writers, cleaner];
    await Promise.all(relays.map((relay) => relay.start()));
    for (const deadline = Date.now() + RUN_MS; Date.now() < deadline; ) {
      await sleep(300 + random.below(700));
      const relay = relays[random.below(relays.length)] ?? cleaner;
      await relay.kill();
      await relay.start();
    }
    // The cleaner goes on alone until it has found something: it must take nothing that is needed.
    for (const writer of writers) await writer.kill();
    const cleaned = () => cleaner.said.flat().filter((said) => 'deleted' in said);
    while (sum(cleaned(), 'deleted') === 0 || sum(cleaned(), 'chunks') === 0) await sleep(50);
    await cleaner.kill();
    const manager = new CheckpointManager({ storage: openStorage(kind, storage.path) });
    const logged = WRITERS.flatMap((writer) => readLog(join(folder, `${writer}.log`)));
    const faults = [...relays.flatMap((relay) => relay.faults), ...(await findFaults(manager, logged))];
    await manager.prune({ policy: { keepLast: 5 } });
    await manager.gc();
    faults.push(...(await findFaults(manager, logged)).map((fault) => `after the last collection: ${fault}`));
    await manager.close();
    const [deleted, chunks] = [sum(cleaned(), 'deleted'), sum(cleaned(), 'chunks')];
    const kills = sum(relays, 'kills');
    const conflicts = writers.flatMap((relay) => relay.said.flat()).filter((said) => 'conflict' in said).length;
    reportFaults(`writers, prune and gc on one ${kind}`, {
      trials: logged.length,
      failures: faults,
      notes: `kills=${kills} pruned=${deleted} chunks-collected=${chunks} conflicts=${conflicts} seed=${random.seed}`,
    });
    expect(faults).toEqual([]);
  });
});

function sum(items: readonly object[], key: string): number {
  return items.reduce((total, item) => total + Number(Reflect.get(item, key)), 0);
}
