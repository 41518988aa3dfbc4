import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SavestateError } from '../../src/core/errors.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { decodeText } from '../../src/storage/sqlite/sqlite-codec.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import {
  type Comparison,
  compareReadings,
  knownIds,
  type Reading,
  readEverything,
  writeHistory,
} from '../support/history.ts';
import { SCRATCH_ROOT } from '../support/scratch-root.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

type Kind = 'sqlite' | 'sqlite compressed' | 'file';
type Random = ReturnType<typeof seededRandom>;
type Outcome = Comparison & { readonly isFound: boolean };
/** Of a folder a whole file, of a database the page at this byte. */
type Part = { readonly name: string; readonly at: number | undefined; readonly bytes: Buffer };

/** Where a database file says how large its pages are. */
const PAGE_SIZE_AT = 16;

function openStorage(kind: Kind, path: string): ChunkStorage {
  if (kind === 'file') return new FileCheckpointStorage({ path });
  return new SqliteCheckpointStorage({ path, compress: kind === 'sqlite compressed', busyTimeoutMs: 500 });
}

type SpecimenParts = {
  readonly whole: Reading;
  readonly known: { readonly ids: readonly string[] };
  readonly original: string;
};

/** A storage with a history, closed, and what can be read from it; every trial damages a copy. */
class Specimen {
  readonly kind: Kind;
  readonly whole: Reading;
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly #known: { readonly ids: readonly string[] };
  readonly #original: string;
  readonly #copy: string;
  /** What the original holds for SQLite. */
  #rows: string | undefined;

  static async create(kind: Kind): Promise<Specimen> {
    const original = join(temporaryFolder(SCRATCH_ROOT), 'original');
    const storage = openStorage(kind, original);
    await writeHistory(storage);
    const manager = new CheckpointManager({ storage: openStorage(kind, original) });
    const reopened = openStorage(kind, original);
    const known = await knownIds(reopened);
    await reopened.close();
    const whole = await readEverything(manager, known);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
    // Deleted checkpoints are not found, and nothing else is refused.
    expect(
      [...whole.values()].filter((answer) => typeof answer === 'string' && /^!(?!NOT_FOUND)/.test(answer)),
    ).toEqual([]);
    return new Specimen(kind, { whole, known, original });
  }

  private constructor(kind: Kind, parts: SpecimenParts) {
    this.kind = kind;
    this.whole = parts.whole;
    this.#known = parts.known;
    this.#original = parts.original;
    this.#copy = `${parts.original}-copy`;
    this.files = listFiles(parts.original);
  }

  /** Damages a copy, then opens it, reads everything and verifies it. */
  async damage(file: string, change: (path: string) => void): Promise<Outcome> {
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${this.#copy}${suffix}`, { recursive: true, force: true });
    cpSync(this.#original, this.#copy, { recursive: true });
    change(file === '' ? this.#copy : join(this.#copy, file));
    let storage: ChunkStorage;
    try {
      storage = openStorage(this.kind, this.#copy);
    } catch (error) {
      if (!(error instanceof SavestateError)) throw error;
      return { altered: [], absent: [], refused: this.whole.size, isFound: true };
    }
    const manager = new CheckpointManager({ storage });
    try {
      const comparison = compareReadings(this.whole, await readEverything(manager, this.#known));
      const { status } = await manager.verify();
      return { ...comparison, isFound: status === 'damaged' };
    } finally {
      await manager.close().catch(ofOurs);
    }
  }

  /** What a damaged database holds for SQLite itself: every row of every table. */
  isCopyTheSame(): boolean {
    this.#rows ??= dump(this.#original);
    return dump(this.#copy) === this.#rows;
  }

  /** Where the one file of a database holds a text close to others. */
  find(text: string, neighbours: readonly string[]): number[] {
    const bytes = readFileSync(this.#original);
    const places: number[] = [];
    for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
      const around = bytes.subarray(Math.max(at - 50, 0), at + 50);
      if (neighbours.every((neighbour) => around.includes(neighbour))) places.push(at);
    }
    return places;
  }

  /** A file of a folder, or a page of a database. */
  pickPart(random: Random): Part {
    const name = this.files[random.below(this.files.length)]?.name ?? '';
    const bytes = readFileSync(join(this.#original, name));
    if (this.kind === 'file') return { name, at: undefined, bytes };
    const pageBytes = bytes.readUInt16BE(PAGE_SIZE_AT);
    const at = random.below(bytes.length / pageBytes) * pageBytes;
    return { name: `page at ${at}`, at, bytes: bytes.subarray(at, at + pageBytes) };
  }

  /** Every byte of the storage is as likely as any other. */
  pickByte(random: Random): { file: string; at: number; size: number } {
    let at = random.below(this.files.reduce((sum, { bytes }) => sum + bytes, 0));
    for (const { name, bytes } of this.files) {
      if (at < bytes) return { file: name, at, size: bytes };
      at -= bytes;
    }
    throw new RangeError('no such byte');
  }
}

function putPart(path: string, { name, at }: Part, bytes: Buffer): void {
  const all = at === undefined ? Buffer.alloc(bytes.length) : readFileSync(path);
  bytes.copy(all, at);
  writeFileSync(at === undefined ? join(path, name) : path, all);
}

/** Closing a damaged database may fail, too, with an error of ours. */
function ofOurs(error: unknown): void {
  if (!(error instanceof SavestateError)) throw error;
}

function listFiles(path: string): { name: string; bytes: number }[] {
  if (statSync(path).isFile()) return [{ name: '', bytes: statSync(path).size }];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(path, name)).isFile())
    .map((name) => ({ name, bytes: statSync(join(path, name)).size }));
}

function dump(path: string): string {
  const db = openDatabase(path);
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name").all();
    const rows = (tables as { name: string }[]).map(({ name }) => db.prepare(`SELECT * FROM "${name}"`).all());
    const checks = ['SELECT * FROM sqlite_schema', 'PRAGMA integrity_check'].map((sql) => db.prepare(sql).all());
    return JSON.stringify([checks, rows], unpackText);
  } finally {
    db.close();
  }
}

/** The last byte of a compressed text has bits that mean nothing, so it is the text itself that counts. */
function unpackText(column: string, value: unknown): unknown {
  const isText = column === 'body' || column === 'text' || column === 'root_text';
  return isText && value instanceof Uint8Array && value[0] === 1 ? decodeText(value) : value;
}

function flipBit(path: string, at: number, bit: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
  writeFileSync(path, bytes);
}

/** Sorts outcomes. Damage must be found, unless nothing at all changed for a reader, and only SQLite has such bytes. */
class Tally {
  readonly failures: string[] = [];
  found = 0;
  harmless = 0;
  absent = 0;

  add(where: string, { altered, absent, isFound }: Outcome, isHarmless: () => boolean): void {
    for (const what of altered) this.failures.push(`${where}: altered: ${what}`);
    if (absent.length > 0) this.absent++;
    if (isFound) this.found++;
    else if (absent.length === 0 && altered.length === 0 && isHarmless()) this.harmless++;
    else this.failures.push(`${where}: not found${absent.length > 0 ? `; absent: ${absent.join(', ')}` : ''}`);
  }

  get summary(): string {
    return `found=${this.found} harmless=${this.harmless} absent-but-found=${this.absent}`;
  }
}

describe.each<[Kind, number, number]>([
  ['sqlite', trials(4_000), trials(340)],
  ['sqlite compressed', trials(4_000), trials(330)],
  ['file', trials(2_000), trials(330)],
])('damage to %s', (kind, flips, others) => {
  test('[durability.2] one flipped bit anywhere is found, and never returned as data', async () => {
    const random = seededRandom();
    const specimen = await Specimen.create(kind);
    const tally = new Tally();
    for (let trial = 0; trial < flips; trial++) {
      const { file, at } = specimen.pickByte(random);
      const bit = random.below(8);
      const outcome = await specimen.damage(file, (path) => flipBit(path, at, bit));
      tally.add(`${file} byte ${at} bit ${bit}`, outcome, () => kind !== 'file' && specimen.isCopyTheSame());
    }
    reportFaults(`bit flips in ${kind}`, {
      trials: flips,
      failures: tally.failures,
      notes: `${tally.summary} seed=${random.seed}`,
    });
    expect(tally.failures).toEqual([]);
  });

  test('[durability.2] a file cut short is found, and nothing wrong is returned', async () => {
    const random = seededRandom();
    const specimen = await Specimen.create(kind);
    const tally = new Tally();
    for (let trial = 0; trial < others; trial++) {
      const { file, at, size } = specimen.pickByte(random);
      // A database of no bytes is a new one, for SQLite as for us.
      const length = kind === 'file' ? at : Math.max(at, 1);
      const outcome = await specimen.damage(file, (path) => truncateSync(path, length));
      tally.add(`${file} cut from ${size} to ${length}`, outcome, () => kind !== 'file' && specimen.isCopyTheSame());
    }
    reportFaults(`truncations of ${kind}`, {
      trials: others,
      failures: tally.failures,
      notes: `${tally.summary} seed=${random.seed}`,
    });
    expect(tally.failures).toEqual([]);
  });

  test("[durability.2] two files, or two pages of a database, in each other's place are found, and nothing wrong is returned", async () => {
    const random = seededRandom();
    const specimen = await Specimen.create(kind);
    const tally = new Tally();
    for (let trial = 0; trial < others; ) {
      const [a, b] = [specimen.pickPart(random), specimen.pickPart(random)];
      if (a.bytes.equals(b.bytes)) continue;
      trial++;
      const outcome = await specimen.damage('', (path) => {
        putPart(path, a, b.bytes);
        putPart(path, b, a.bytes);
      });
      tally.add(`${a.name} and ${b.name}`, outcome, () => kind !== 'file' && specimen.isCopyTheSame());
    }
    reportFaults(`swaps in ${kind}`, {
      trials: others,
      failures: tally.failures,
      notes: `${tally.summary} seed=${random.seed}`,
    });
    expect(tally.failures).toEqual([]);
  });
});

test('[durability.2] a list whose last key is damaged does not lead in circles', async () => {
  const specimen = await Specimen.create('sqlite');
  const tally = new Tally();
  // The last name in the list of sessions, in the table and in its index: turned into a smaller one, it ends no list.
  const places = specimen.find('beta', ['alpha', '../odd name']);
  expect(places.length).toBe(2);
  for (const at of places) {
    for (let bit = 0; bit < 8; bit++) {
      const outcome = await specimen.damage('', (path) => flipBit(path, at, bit));
      tally.add(`byte ${at} bit ${bit}`, outcome, () => false);
    }
  }
  expect(tally.failures).toEqual([]);
});

test('[durability.2] a damaged branch or tag is not passed over', async () => {
  const specimen = await Specimen.create('sqlite compressed');
  const tally = new Tally();
  // The lengths before the first text of a row: with another one, the row seems to belong to no session, or to be of no kind.
  const places = specimen.find('what-if', ['branch']).slice(0, 2);
  expect(places.length).toBe(2);
  for (const at of places) {
    for (let before = 7; before <= 12; before++) {
      const outcome = await specimen.damage('', (path) => flipBit(path, at - before, 1));
      tally.add(`byte ${at - before} bit 1`, outcome, () => false);
    }
  }
  expect(tally.failures).toEqual([]);
});
