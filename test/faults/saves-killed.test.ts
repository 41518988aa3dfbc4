import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { encrypted } from '../../src/storage/encryption/encrypted.ts';
import { KeyFile } from '../../src/storage/encryption/key-file.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import type { Random } from '../../src/testing/contract/random.ts';
import { type Child, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { conversationOf } from './children/states.mjs';

type Place =
  | {
      readonly kind: 'sqlite';
      readonly path: string;
      readonly durability: 'power' | 'process';
      readonly compress: boolean;
      readonly keyFile?: string;
    }
  | { readonly kind: 'file'; readonly path: string };
type Acknowledged = { readonly id: string; readonly count: number };

const children = new WarmChildren('saver');

/** A storage that lives through several kills, and what was acknowledged to those who were killed. */
class KilledStorage {
  readonly place: Place;
  readonly acknowledged: Acknowledged[] = [];

  constructor(kind: Place['kind'] | 'encrypted', random: Random) {
    const folder = temporaryFolder();
    const path = join(folder, kind === 'file' ? 'kills' : 'kills.db');
    const durability = random.below(4) === 0 ? 'process' : 'power';
    const sqlite = { kind: 'sqlite', path, durability, compress: random.below(3) === 0 } as const;
    if (kind === 'file') this.place = { kind, path };
    else this.place = kind === 'sqlite' ? sqlite : { ...sqlite, keyFile: join(folder, 'kills.keys') };
  }

  get #keys(): KeyFile | undefined {
    const { place } = this;
    return place.kind === 'sqlite' && place.keyFile !== undefined ? new KeyFile(place.keyFile) : undefined;
  }

  /** Lets a process save here and kills it after a while, sometimes while it is still opening. Returns what is wrong then. */
  async kill(child: Child, random: Random, hasSaved: boolean): Promise<string[]> {
    await this.#keys?.create();
    child.tell(this.place);
    if (random.below(6) > 0) await child.heard('open');
    // Half of them have something to lose, however slow the machine is.
    if (hasSaved || random.below(2) > 0) await child.heard('saved', 1 + random.below(3));
    if (random.below(2) > 0) await this.#keys?.update((ring) => ring.add()); // while it is in use
    await sleep(5 + random.below(this.place.kind === 'sqlite' ? 56 : 116)); // a save to files takes longer
    const { signal } = await child.kill();
    const saved = child.said.filter((said) => 'saved' in said);
    const fresh = saved.map(({ saved: id, count }) => ({ id: String(id), count: Number(count) }));
    this.acknowledged.push(...fresh);
    if (signal !== 'SIGKILL') return [`the process ended by itself: ${child.stderr}`];
    return this.findFaults(fresh);
  }

  /** Opens the storage again: the given checkpoints, the head and everything else must be as they were acknowledged. */
  async findFaults(expected: readonly Acknowledged[]): Promise<string[]> {
    const { kind, path } = this.place;
    const below = kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
    const storage = this.#keys === undefined ? below : encrypted(below, { keys: this.#keys });
    const manager = new CheckpointManager({ storage });
    const faults: string[] = [];
    try {
      for (const { id, count } of expected) {
        if (!isSameValue(await manager.load(id), conversationOf(count))) faults.push(`${id} has another state`);
      }
      faults.push(...(await this.#checkHead(manager)));
      const { findings } = await manager.verify();
      faults.push(...findings.map(({ subject, problem }) => `${subject}: ${problem}`));
    } catch (error) {
      faults.push(String(error));
    } finally {
      await manager.close();
    }
    return faults;
  }

  async #checkHead(manager: CheckpointManager): Promise<string[]> {
    const session = await manager.session('chat');
    const last = this.acknowledged.at(-1);
    const sequence = session.head?.sequence ?? 0;
    const extra = sequence - (last?.count ?? 0);
    const faults = extra === 0 || extra === 1 ? [] : [`the head is ${sequence}, acknowledged was ${last?.count ?? 0}`];
    if (extra === 0 && session.head?.id !== last?.id) faults.push('the head is not the acknowledged checkpoint');
    if (sequence > 0 && !isSameValue(session.state, conversationOf(sequence)))
      faults.push('the head has another state');
    // What was stored and not acknowledged is there from now on; the next process stands on it.
    if (extra === 1 && session.head !== undefined) this.acknowledged.push({ id: session.head.id, count: sequence });
    return faults;
  }
}

describe.each(['sqlite', 'file', 'encrypted'] as const)('a saving process on %s, killed at any moment', (kind) => {
  test.each([
    ['a new storage each time', trials(150), 1],
    ['one storage over many kills', trials(150), 25],
  ])('[durability.1] %s: nothing acknowledged is lost, everything is whole', async (name, kills, killsPerStorage) => {
    const random = seededRandom();
    const faults: string[] = [];
    let saves = 0;
    let storage = new KilledStorage(kind, random);
    for (let kill = 0; kill < kills; kill++) {
      if (kill > 0 && kill % killsPerStorage === 0) {
        faults.push(...(await storage.findFaults(storage.acknowledged)));
        saves += storage.acknowledged.length;
        storage = new KilledStorage(kind, random);
      }
      const found = await storage.kill(await children.next(), random, kill === 0);
      faults.push(...found.map((fault) => `kill ${kill}, ${JSON.stringify(storage.place)}: ${fault}`));
    }
    faults.push(...(await storage.findFaults(storage.acknowledged)));
    saves += storage.acknowledged.length;
    reportFaults(`saves ${kind} killed, ${name}`, {
      trials: kills,
      failures: faults,
      notes: `saves=${saves} seed=${random.seed}`,
    });
    expect(faults).toEqual([]);
    expect(saves).toBeGreaterThan(0);
  });
});
