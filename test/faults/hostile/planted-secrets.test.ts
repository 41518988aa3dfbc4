import { Buffer } from 'node:buffer';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../../src/storage/sqlite/sqlite-storage.ts';
import { reportFaults, seededRandom } from '../../support/fault-report.ts';
import { SCRATCH_ROOT } from '../../support/scratch-root.ts';
import { CARRIERS, TOKENS } from '../../support/secret-corpus.ts';
import { temporaryFolder } from '../../support/storages.ts';
import { trials } from '../../support/trials.ts';

type Place = readonly [name: string, plant: (manager: CheckpointManager, text: string) => Promise<unknown>];

const saved = async (manager: CheckpointManager, state: unknown, options = {}) =>
  (await manager.session('work', { onConflict: 'branch' })).save(state, options);

/** Where a program puts what it was told. */
const PLACES: readonly [Place, ...Place[]] = [
  ['a message', (manager, text) => saved(manager, { messages: [{ role: 'user', content: text }] })],
  [
    'a tool result',
    (manager, text) => saved(manager, { messages: [{ role: 'tool', content: [{ output: { text } }] }] }),
  ],
  ['an error in a state', (manager, text) => saved(manager, { failed: new Error(text) })],
  ['a map', (manager, text) => saved(manager, { seen: new Map([['said', text]]), all: new Set([text]) })],
  ['metadata', (manager, text) => saved(manager, { n: 1 }, { metadata: { said: text } })],
  ['a note', (manager, text) => saved(manager, { n: 2 }, { note: text, reason: text, contextSummary: text })],
  ['the result of a step', async (manager, text) => (await manager.session('work')).step('ask', () => ({ text }))],
  [
    'the failure of a step',
    async (manager, text) =>
      (await manager.session('work')).step('fail', () => Promise.reject(new Error(text))).catch(() => undefined),
  ],
];

function bytesBelow(folder: string): Buffer {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
  return Buffer.concat(names.filter((name) => statSync(name).isFile()).map((name) => readFileSync(name)));
}

const KINDS: readonly (readonly [name: string, open: (path: string) => ChunkStorage])[] = [
  ['sqlite', (path) => new SqliteCheckpointStorage({ path, durability: 'process' })],
  ['file', (path) => new FileCheckpointStorage({ path })],
];

describe.each(KINDS)('secrets of known formats on %s', (kind, open) => {
  test('[secret.4] reach no byte of a storage or an export, wherever they are put', async () => {
    const random = seededRandom();
    const failures: string[] = [];
    const total = trials(500);
    for (let trial = 0; trial < total; trial++) {
      const folder = temporaryFolder(SCRATCH_ROOT);
      const manager = new CheckpointManager({ storage: open(join(folder, 'store')) });
      const [format, token] = TOKENS[random.below(TOKENS.length)] ?? ['', ''];
      const [carrier, carry] = CARRIERS[random.below(CARRIERS.length)] ?? ['', String];
      const [place, plant] = random.pick(PLACES);
      const mark = `plain ${trial}`;
      await saved(manager, { mark });
      await plant(manager, carry(token));
      const lines: string[] = [];
      for await (const line of manager.exportSession('work')) lines.push(line);
      const whileOpen = bytesBelow(folder);
      await manager.close();
      const all = Buffer.concat([whileOpen, bytesBelow(folder), Buffer.from(lines.join('\n'))]);
      const secret = token.slice(-12);
      if (all.includes(secret) || all.includes(encodeURIComponent(secret)))
        failures.push(`${format} in ${place}, as ${carrier}`);
      if (!all.includes(mark)) failures.push(`trial ${trial}: the scan does not see what is there`);
    }
    reportFaults(`planted secrets on ${kind}`, { trials: total, failures, notes: `seed=${random.seed}` });
    expect(failures).toEqual([]);
  });
});
