import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../../src/storage/contract.ts';
import { openDatabase, type SqlDatabase } from '../../../src/storage/database/sqlite-driver.ts';
import { encrypted } from '../../../src/storage/encryption/encrypted.ts';
import { Keyring } from '../../../src/storage/encryption/keyring.ts';
import { SqliteCheckpointStorage } from '../../../src/storage/sqlite/sqlite-storage.ts';
import type { Random } from '../../../src/testing/contract/random.ts';
import { reportFaults, seededRandom } from '../../support/fault-report.ts';
import { writeHistory } from '../../support/history.ts';
import { SCRATCH_ROOT } from '../../support/scratch-root.ts';
import { temporaryFolder } from '../../support/storages.ts';
import { trials } from '../../support/trials.ts';

type Column = readonly [table: string, column: string];
const COLUMNS: readonly [Column, ...Column[]] = [
  ['chunk', 'text'],
  ['checkpoint', 'body'],
  ['checkpoint', 'root_text'],
  ['effect', 'body'],
  ['effect', 'text'],
];

/** A chunk ends with a check for those who have no key; who has one does not need it, and nobody is served anything of it. */
const CHECK_CHARS = 40;

type Text = { readonly n: number; readonly value: string };
type Change = { readonly what: string; readonly undo: () => void };

/** Changes a bit that says something: the padding of a text says nothing, nor do some bits of its last digit. */
const flip = (text: string, at: number) => {
  const place = text[at] === '=' ? at - 2 : at;
  return text.slice(0, place) + (text[place] === 'A' ? 'g' : 'A') + text.slice(place + 1);
};

/** Changes one text behind the back of the storage, so that it is not what it was; `undo` puts it back. */
function changeText(db: SqlDatabase, random: Random): Change {
  for (;;) {
    const [table, column] = random.pick(COLUMNS);
    const rows = db.prepare(`SELECT n, ${column} AS value FROM ${table} WHERE ${column} IS NOT NULL`).all() as Text[];
    const row = rows[random.below(rows.length)];
    if (row === undefined) continue;
    const { n, value } = row;
    const start = value.indexOf('.') + 1; // behind the head that names the key
    const write = (at: number, text: string) => db.prepare(`UPDATE ${table} SET ${column}=? WHERE n=?`).run(text, at);
    const other = rows[random.below(rows.length)] ?? row;
    const [what, planted] = random.pick([
      ['flipped', flip(value, start + random.below(Math.max(1, value.length - start - CHECK_CHARS)))],
      ['cut off', value.slice(0, random.below(Math.max(1, value.length - CHECK_CHARS)))],
      ['of another row', other.value],
      ['planted', column === 'body' ? '{"id":"planted"}' : '"planted"'],
    ]);
    if (planted === value) continue;
    write(n, planted);
    return { what: `${table}.${column} ${n}: ${what}`, undo: () => write(n, value) };
  }
}

async function statusOf(storage: ChunkStorage): Promise<string> {
  const manager = new CheckpointManager({ storage });
  const { status } = await manager.verify();
  await manager.close();
  return status;
}

test('[encryption.2] whatever is changed below the encryption is found', async () => {
  const random = seededRandom();
  const path = join(temporaryFolder(SCRATCH_ROOT), 'sealed.db');
  const keys = Keyring.create();
  const open = () => encrypted(new SqliteCheckpointStorage({ path, durability: 'process' }), { keys });
  await writeHistory(open());
  const cleaner = new CheckpointManager({ storage: open() });
  await cleaner.gc(); // what nothing needs is never read, so that nobody misses it
  await cleaner.close();
  const db = openDatabase(path);
  const failures: string[] = [];
  const total = trials(1_000);
  for (let trial = 0; trial < total; trial++) {
    const { what, undo } = changeText(db, random);
    const status = await statusOf(open());
    if (status !== 'damaged') failures.push(`${what} is ${status}`);
    undo();
  }
  db.close();
  expect(await statusOf(open())).toBe('clean');
  reportFaults('changes below an encrypted storage', { trials: total, failures, notes: `seed=${random.seed}` });
  expect(failures).toEqual([]);
});

/** What somebody may do to the records of a chain who can write to the database. */
const ACTS: readonly [(db: SqlDatabase, random: Random) => string, ...((db: SqlDatabase, random: Random) => string)[]] =
  [
    (db, random) => {
      const { n } = anyRow(db, random);
      db.prepare('DELETE FROM checkpoint WHERE n=?').run(n);
      return `${n} deleted`;
    },
    (db, random) => {
      const { n, body } = anyRow(db, random);
      const changed = otherBody(body, random);
      db.prepare('UPDATE checkpoint SET body=? WHERE n=?').run(changed, n);
      return `${n} changed`;
    },
    (db, random) => {
      const [a, b] = [anyRow(db, random), anyRow(db, random)];
      if (a.n === b.n) return '';
      const put = db.prepare('UPDATE checkpoint SET body=? WHERE n=?');
      put.run(b.body, a.n);
      put.run(a.body, b.n);
      return `${a.n} and ${b.n} swapped`;
    },
  ];

type Row = { readonly n: number; readonly body: string | Uint8Array };

/** Another digit in a text, another bit in bytes. */
function otherBody(body: string | Uint8Array, random: Random): string | Uint8Array {
  const digits = typeof body === 'string' ? [...body.matchAll(/[1-9]/g)] : [];
  const at = digits[random.below(digits.length)]?.index;
  if (typeof body === 'string') return `${body.slice(0, at)}0${body.slice((at ?? 0) + 1)}`;
  const bytes = Uint8Array.from(body);
  const place = random.below(bytes.length);
  bytes[place] = (bytes[place] ?? 0) ^ (1 << random.below(8));
  return bytes;
}

function anyRow(db: SqlDatabase, random: Random): Row {
  const rows = db.prepare('SELECT n, body FROM checkpoint WHERE deleted=0 ORDER BY n').all() as Row[];
  return rows[random.below(rows.length)] as Row;
}

test('[durability.2] a checkpoint that is changed, swapped or taken out of its chain is found', async () => {
  const random = seededRandom();
  const path = join(temporaryFolder(SCRATCH_ROOT), 'chain.db');
  const open = () => new SqliteCheckpointStorage({ path, durability: 'process' });
  await writeHistory(open());
  const db = openDatabase(path);
  const failures: string[] = [];
  const total = trials(500);
  for (let trial = 0; trial < total; ) {
    const before = db.prepare('SELECT * FROM checkpoint ORDER BY n').all() as { n: number }[];
    const what = random.pick(ACTS)(db, random);
    if (what !== '') {
      trial++;
      const status = await statusOf(open());
      if (status !== 'damaged') failures.push(`${what}: ${status}`);
    }
    restore(db, before);
  }
  db.close();
  expect(await statusOf(open())).toBe('clean');
  reportFaults('changes to the chain of a session', { trials: total, failures, notes: `seed=${random.seed}` });
  expect(failures).toEqual([]);
});

function restore(db: SqlDatabase, rows: readonly { n: number }[]): void {
  db.exec('DELETE FROM checkpoint');
  for (const row of rows) {
    const [names, values] = [Object.keys(row), Object.values(row) as (string | number | Uint8Array | null)[]];
    db.prepare(`INSERT INTO checkpoint(${names.join()}) VALUES(${names.map(() => '?').join()})`).run(...values);
  }
}
