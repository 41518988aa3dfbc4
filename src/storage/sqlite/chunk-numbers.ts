import { Buffer } from 'node:buffer';
import { CorruptError } from '../../core/errors.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { splitDigests } from '../../core/tree/chunk.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { SqlStatement } from '../database/sqlite-driver.ts';
import { DIGEST_BYTES, joinDigest, PREFIX_BYTES, packDigest, packRefs, unpackDigest } from './sqlite-codec.ts';

/** The first byte of a list of refs: digests of 32 bytes each, or numbers of chunks, seven bits a byte, lowest first. */
const BY_DIGEST = 0;
const BY_NUMBER = 1;

/** Fewer are looked up one by one. */
const PREFETCH_MIN = 3;

/** Digests remembered with their numbers; about 25 MB. */
const MAX_REMEMBERED = 100_000;

type State = { collections: number; removals: number; last: number };
type DigestColumns = { prefix: Uint8Array; rest: Uint8Array };

/**
 * Refs are stored as the numbers of chunk rows: three bytes instead of 32, and found without the index. A number is given out
 * once and never again; a chunk's number is greater than those of the chunks it refers to. What is remembered here is true until
 * chunks are collected, by any process: one that is brought again gets a new number. So `refresh` comes before every use.
 */
export class ChunkNumbers {
  readonly #selectNumber: SqlStatement;
  readonly #selectSession: SqlStatement;
  readonly #selectDigest: SqlStatement;
  readonly #selectDigests: SqlStatement;
  readonly #selectState: SqlStatement;
  readonly #numbers = new Map<Digest, number>();
  readonly #digests = new Map<number, Digest>();
  readonly #sessions = new Map<string, number>();
  #collections = -1;
  #removals = -1;
  #last = 0;

  constructor({ db }: SqliteConnection) {
    this.#selectNumber = db.prepare('SELECT n FROM chunk WHERE prefix=? AND rest=?');
    this.#selectSession = db.prepare('SELECT n FROM session WHERE name=?');
    this.#selectDigest = db.prepare('SELECT prefix, rest FROM chunk WHERE n=?');
    this.#selectDigests = db.prepare(
      'SELECT n, hex(prefix)||hex(rest) AS digest FROM chunk WHERE n IN (SELECT value FROM json_each(?))',
    );
    this.#selectState = db.prepare(
      'SELECT value AS collections, (SELECT value FROM epoch WHERE n=1) AS removals, max(coalesce((SELECT max(n) FROM chunk), 0), (SELECT value FROM epoch WHERE n=2)) AS last FROM epoch WHERE n=3',
    );
  }

  /** Forgets what was remembered if chunks or sessions were removed since. To be called at the start of every transaction. */
  refresh(): void {
    const { collections, removals, last } = this.#selectState.get() as State;
    if (collections !== this.#collections) this.forget();
    if (removals !== this.#removals) this.#sessions.clear();
    this.#collections = collections;
    this.#removals = removals;
    this.#last = last;
  }

  /** The number for a new chunk, inside the transaction that stores it; `remember` takes it. */
  get next(): number {
    return this.#last + 1;
  }

  /** Whether a chunk is stored for certain, so that it need not be brought again. */
  has(digest: Digest): boolean {
    return this.#numbers.has(digest);
  }

  remember(digest: Digest, number: number): void {
    if (this.#numbers.size >= MAX_REMEMBERED) this.forget();
    this.#numbers.set(digest, number);
    this.#digests.set(number, digest);
    if (number > this.#last) this.#last = number;
  }

  /** Looks up the digests behind many refs in one go, so that `unpack` finds them remembered. */
  prefetch(stored: readonly (Uint8Array | null)[]): void {
    const wanted = new Set<number>();
    for (const refs of stored) for (const n of readRefs(refs).numbers) if (!this.#digests.has(n)) wanted.add(n);
    if (wanted.size < PREFETCH_MIN) return;
    const rows = this.#selectDigests.all(JSON.stringify([...wanted])) as { n: number; digest: string }[];
    for (const { n, digest } of rows) this.remember(digest.toLowerCase() as Digest, n);
  }

  /** After a rollback: numbers given out in it are free again. */
  forget(): void {
    this.#numbers.clear();
    this.#digests.clear();
    this.#sessions.clear();
  }

  /** The number of a session, inside a transaction; undefined if it has none. */
  findSession(sessionId: string): number | undefined {
    const known = this.#sessions.get(sessionId);
    if (known !== undefined) return known;
    const row = this.#selectSession.get(sessionId) as { n: number } | undefined;
    if (this.#sessions.size >= MAX_REMEMBERED) this.#sessions.clear();
    if (row !== undefined) this.#sessions.set(sessionId, row.n);
    return row?.n;
  }

  find(digest: Digest): number | undefined {
    const known = this.#numbers.get(digest);
    if (known !== undefined) return known;
    const bytes = packDigest(digest);
    const row = this.#selectNumber.get(bytes.subarray(0, PREFIX_BYTES), bytes.subarray(PREFIX_BYTES));
    if (row === undefined) return undefined;
    const { n } = row as { n: number };
    this.remember(digest, n);
    return n;
  }

  /** Refs as they are stored; NULL if there are none. A ref to a chunk that is not there is kept as a digest. */
  pack(refs: readonly Digest[]): Uint8Array | null {
    if (refs.length === 0) return null;
    const bytes: number[] = [BY_NUMBER];
    for (const digest of refs) {
      const number = this.find(digest);
      if (number === undefined) return Buffer.concat([Buffer.of(BY_DIGEST), packRefs(refs)]);
      writeNumber(bytes, number);
    }
    return Buffer.from(bytes);
  }

  unpack(stored: Uint8Array | null): Digest[] {
    const { digests, numbers } = readRefs(stored);
    return digests ?? numbers.map((number) => this.#digestOf(number));
  }

  /** The numbers behind stored refs; those of absent chunks are left out. */
  unpackNumbers(stored: Uint8Array | null): number[] {
    const { digests, numbers } = readRefs(stored);
    return digests?.map((digest) => this.find(digest)).filter((number) => number !== undefined) ?? numbers;
  }

  #digestOf(number: number): Digest {
    const known = this.#digests.get(number);
    if (known !== undefined) return known;
    const row = this.#selectDigest.get(number) as DigestColumns | undefined;
    if (row === undefined) {
      throw new CorruptError(
        `Chunk number ${number} is missing, and something refers to it. Run verify to see what it affects.`,
      );
    }
    const digest = joinDigest(row);
    this.remember(digest, number);
    return digest;
  }
}

/** Reads either stored form. */
export function readRefs(stored: Uint8Array | null): { digests?: Digest[]; numbers: number[] } {
  if (stored === null) return { numbers: [] };
  const isBytes = stored instanceof Uint8Array; // in a damaged file it may be anything
  if (isBytes && stored[0] === BY_NUMBER) return { numbers: readNumbers(stored) };
  const isWhole = isBytes && stored[0] === BY_DIGEST && stored.length > 1 && (stored.length - 1) % DIGEST_BYTES === 0;
  if (!isWhole) throw new CorruptError('A list of references is damaged. Run verify to see what it affects.');
  return { digests: splitDigests(unpackDigest(stored.subarray(1))), numbers: [] };
}

function writeNumber(bytes: number[], number: number): void {
  let rest = number;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}

function readNumbers(stored: Uint8Array): number[] {
  const numbers: number[] = [];
  let value = 0;
  let factor = 1;
  for (const byte of stored.subarray(1)) {
    value += (byte % 128) * factor;
    factor *= 128;
    if (byte >= 128) continue;
    numbers.push(value);
    value = 0;
    factor = 1;
  }
  if (factor !== 1) throw new CorruptError('A list of references is damaged. Run verify to see what it affects.');
  return numbers;
}
