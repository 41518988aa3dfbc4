import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { Child } from '../support/child.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { conversationOf } from './children/states.mjs';

type Config = { readonly kind: 'sqlite' | 'file'; readonly durability?: 'process' };

const CALLS = 'fdatasync,fsync,write,pwrite64,writev,pwritev,link,linkat,rename,renameat,renameat2,mkdir,mkdirat';
const HAS_STRACE = spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0;
const describeTraced = describe.skipIf(!HAS_STRACE);
if (!HAS_STRACE) console.log('SKIPPED: strace cannot be run here, so that syncs cannot be traced or made to fail.');

/** Follows which writes of a storage reached the disk, call by call, and what was not there yet at an acknowledgement. */
class SyncCheck {
  readonly failures: string[] = [];
  acks = 0;
  syncs = 0;
  readonly #root: string;
  /** The number of the last call that changed a file or a folder and was not synced since. */
  readonly #dirty = new Map<string, number>();
  readonly #unfinished = new Map<string, { text: string; number: number }>();
  #number = 0;

  constructor(root: string) {
    this.#root = root;
  }

  read(line: string): void {
    this.#number++;
    const [, pid = '', rest = ''] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    const cut = / <unfinished \.\.\.>$/.exec(rest);
    if (cut !== null) {
      const text = rest.slice(0, cut.index);
      this.#unfinished.set(pid, { text, number: this.#number });
      // Its order to the syncs of other threads is unknown: it counts from its beginning, and again when it ends.
      this.#change(text);
      return;
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest);
    const begun = resumed === null ? { text: '', number: this.#number } : this.#unfinished.get(pid);
    this.#end(`${begun?.text ?? ''}${resumed?.[1] ?? rest}`, begun?.number ?? this.#number);
  }

  #end(text: string, began: number): void {
    const sync = /^f(?:data)?sync\(\d+<([^>]*)>.*= 0$/.exec(text)?.[1];
    if (sync !== undefined) {
      this.syncs++;
      if ((this.#dirty.get(sync) ?? 0) < began) this.#dirty.delete(sync);
    } else if (/^write\(1<.*\\"ack\\":/.test(text)) this.#acknowledge();
    else this.#change(text);
  }

  #change(text: string): void {
    const path = /^(?:p?writev?(?:64)?)\(\d+<([^>]*)>/.exec(text)?.[1] ?? namedFolder(text);
    // Marker files, the index in shared memory, and names in the temporary folder need not survive.
    if (path === undefined || !path.startsWith(this.#root) || /-shm$|\/locks|\/temp$/.test(path)) return;
    this.#dirty.set(path, this.#number);
  }

  #acknowledge(): void {
    this.acks++;
    if (this.#dirty.size > 0) this.failures.push(`ack ${this.acks}: not synced: ${[...this.#dirty.keys()].join(', ')}`);
    this.#dirty.clear();
  }
}

/** The folder in which a call made a name. */
function namedFolder(text: string): string | undefined {
  if (!/^(link|rename|mkdir)/.test(text) || !text.endsWith('= 0')) return undefined;
  const last = [...text.matchAll(/"([^"]*)"/g)].at(-1)?.[1];
  return last === undefined ? undefined : dirname(last);
}

type Traced = { readonly saves: number; readonly inject?: string; readonly isKilled?: boolean };

async function trace(config: Config, { saves, inject: fault, isKilled }: Traced) {
  const folder = temporaryFolder();
  const path = join(folder, config.kind === 'sqlite' ? 'traced.db' : 'traced');
  const output = join(folder, 'trace.txt');
  const inject = fault === undefined ? [] : ['-e', `inject=${fault}`];
  const child = new Child('acker', {
    wrapper: ['strace', '-f', '-qq', '-y', '-s', '60', '-e', `trace=${CALLS}`, ...inject, '-o', output],
    env: { UV_THREADPOOL_SIZE: fault === undefined ? '4' : '1' },
  });
  child.tell({ storage: { ...config, path }, saves, withSteps: fault === undefined, isKilled });
  await child.ended;
  return { child, folder, path, lines: readFileSync(output, 'utf8').trimEnd().split('\n') };
}

function check(folder: string, lines: readonly string[]): SyncCheck {
  const found = new SyncCheck(folder);
  for (const line of lines) found.read(line);
  return found;
}

describeTraced('what reaches the disk before an acknowledgement', () => {
  const saves = trials(250);

  test.each<Config>([{ kind: 'sqlite' }, { kind: 'file' }])(
    '[durability.5] $kind: every write is synced before save or step resolves',
    async (config) => {
      const { child, folder, lines } = await trace(config, { saves });
      expect(child.said.filter((said) => 'failed' in said)).toEqual([]);
      const { acks, syncs, failures } = check(folder, lines);
      reportFaults(`sync before ack, ${config.kind}`, { trials: acks, failures, notes: `syncs=${syncs}` });
      expect(failures).toEqual([]);
      expect(acks).toBe(2 * saves);
      expect(syncs).toBeGreaterThanOrEqual(acks);
      // The check can fail: the same trace without its syncs does.
      const blind = check(
        folder,
        lines.filter((line) => !/sync/.test(line)),
      );
      expect(blind.failures.length).toBe(acks);
    },
  );

  test('[durability.5] durability "process" is told apart: its acknowledgements come before the sync', async () => {
    const { folder, lines } = await trace({ kind: 'sqlite', durability: 'process' }, { saves: 20 });
    expect(check(folder, lines).failures.length).toBeGreaterThan(20);
  });
});

describeTraced('a disk whose syncs fail', () => {
  test.each<Config>([{ kind: 'sqlite' }, { kind: 'file' }])(
    '[durability.5] $kind: a save whose sync failed is in the history of the next process only if it said so',
    async (config) => {
      let stored = 0;
      for (const nth of [13, 16, 19, 22]) {
        const inject = `fdatasync,fsync:error=EIO:when=${nth}`;
        const { child, path } = await trace(config, { saves: 20, inject, isKilled: true });
        const acknowledged = child.said.filter((said) => 'ack' in said).length;
        const { outcome } = child.said.find((said) => 'failed' in said) ?? {};
        const manager = new CheckpointManager({ storage: storageOf(config, path) });
        const { checkpoints } = await manager.list({ sessionId: 'chat' });
        await manager.close();
        if (checkpoints.length > acknowledged) stored++;
        expect(outcome).toBe(checkpoints.length > acknowledged ? 'unknown' : undefined);
      }
      expect(stored).toBeGreaterThan(0);
    },
  );

  test.each<Config>([{ kind: 'sqlite' }, { kind: 'file' }])(
    '[durability.5] $kind: a save whose sync failed is not acknowledged, and what was acknowledged is there',
    async (config) => {
      const faults: string[] = [];
      let [runs, failed, acksAfter] = [0, 0, 0];
      // The short run takes every third of the syncs of opening, of the first saves and of closing, from a random one on.
      const { last, step, saves } = IS_FULL ? { last: 50, step: 1, saves: 50 } : { last: 15, step: 3, saves: 12 };
      const random = seededRandom();
      for (let nth = 1 + random.below(step); nth <= last; nth += step) {
        runs++;
        const inject = `fdatasync,fsync:error=EIO:when=${nth}`;
        const { child, path, lines } = await trace(config, { saves, inject });
        const failures = child.said.filter((said) => 'failed' in said);
        const isInjected = lines.some((line) => line.includes('(INJECTED)'));
        const isClosing = child.said.filter((said) => 'ack' in said).length === saves;
        if (isInjected && failures.length === 0 && !isClosing) faults.push(`sync ${nth} failed and nobody was told`);
        for (const { failed: code } of failures) if (code !== 'STORAGE') faults.push(`sync ${nth}: ${code}`);
        if (failures.length > 0) failed++;
        acksAfter += countAcksAfterFailure(child);
        faults.push(...(await findLost(config, path, child)).map((fault) => `sync ${nth}: ${fault}`));
      }
      reportFaults(`failed syncs, ${config.kind}`, {
        trials: runs,
        failures: faults,
        notes: `saves-refused-in=${failed} acks-after-a-failure=${acksAfter} seed=${random.seed}`,
      });
      expect(faults).toEqual([]);
      expect(failed).toBeGreaterThan(0);
      // Pages that a failed sync dropped are not written again by the next one: nothing may be promised any more.
      expect(acksAfter).toBe(0);
    },
  );
});

function countAcksAfterFailure({ said }: Child): number {
  const first = said.findIndex((line) => 'failed' in line);
  return first < 0 ? 0 : said.slice(first).filter((line) => 'ack' in line).length;
}

function storageOf({ kind }: Config, path: string): SqliteCheckpointStorage | FileCheckpointStorage {
  return kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
}

async function findLost(config: Config, path: string, child: Child): Promise<string[]> {
  const manager = new CheckpointManager({ storage: storageOf(config, path) });
  const faults: string[] = [];
  for (const { ack, count } of child.said.filter((said) => 'ack' in said)) {
    const state = await manager.load(String(ack)).catch(String);
    if (!isSameValue(state, conversationOf(Number(count)))) faults.push(`${String(ack)} is lost`);
  }
  const { findings } = await manager.verify();
  await manager.close();
  return [...faults, ...findings.map(({ subject, problem }) => `${subject}: ${problem}`)];
}
