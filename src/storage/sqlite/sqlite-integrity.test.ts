import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SessionId } from '../../core/record/id.ts';
import { Builders, commitOf, contentOf, deletionOf, moveBranch } from '../../testing/contract/builders.ts';
import { openDatabase } from '../database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

let folder: string;
let path: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-integrity-'));
  path = join(folder, 'test.db');
  const make = new Builders();
  const storage = new SqliteCheckpointStorage({ path });
  for (let i = 0; i < 50; i++) {
    const chunk = make.chunk([], JSON.stringify(`chunk ${i} ${'x'.repeat(500)}`));
    const checkpoint = make.checkpoint({
      sessionId: `s-${i % 2}`,
      userId: 'u',
      agentId: 'a',
      status: 'running',
      idempotencyKey: `k${i}`,
      root: contentOf(chunk),
    });
    const effects = [make.effect({ sessionId: `s-${i % 2}`, ordinal: i, result: contentOf(chunk) })];
    const name = `b-${i}`;
    await storage.commit(
      commitOf(checkpoint, { chunks: [chunk], effects, refs: i === 0 ? [] : [moveBranch(name, checkpoint)] }),
    );
    if (i === 0) await storage.deleteCheckpoints([deletionOf(checkpoint)]);
  }
  await storage.close();
});

afterEach(() => rmSync(folder, { recursive: true }));

async function findingsAfter(sql: string): Promise<string[]> {
  const db = openDatabase(path);
  db.exec(sql);
  db.close();
  await using storage = new SqliteCheckpointStorage({ path });
  return await storage.checkIntegrity();
}

test.each([
  ["UPDATE checkpoint SET branch='other' WHERE n=3", /another branch/],
  ["UPDATE checkpoint SET user='other' WHERE n=3", /another user/],
  ['UPDATE checkpoint SET agent=NULL WHERE n=3', /another agent/],
  ["UPDATE checkpoint SET type='x' WHERE n=3", /another type/],
  ["UPDATE checkpoint SET status='x' WHERE n=3", /another status/],
  ['UPDATE checkpoint SET timestamp=timestamp+1 WHERE n=3', /another time/],
  ["UPDATE checkpoint SET idempotency='x' WHERE n=3", /another idempotency key/],
  ['UPDATE checkpoint SET session=1+session%2 WHERE n=3', /another session/],
  ['UPDATE checkpoint SET session=99 WHERE n=3', /a session that is not there/],
  ['UPDATE checkpoint SET deleted=1 WHERE n=3', /another state of deletion/],
  ['UPDATE checkpoint SET deleted=0 WHERE n=1', /another state of deletion/],
  ["UPDATE checkpoint SET body='{' WHERE n=3", /cannot be read/],
  ["UPDATE checkpoint SET root_refs=x'00' WHERE n=3", /damaged list of references/],
  ["UPDATE checkpoint SET digest=x'00' WHERE n=3", /digest of 1 bytes/],
  ["UPDATE chunk SET refs=x'00' WHERE n=3", /damaged list of references/],
  ["UPDATE chunk SET rest=x'00' WHERE n=3", /damaged digest/],
  ['UPDATE effect SET ordinal=1000 WHERE n=3', /Effect .* is damaged/],
  ["UPDATE effect SET branch='x' WHERE n=3", /Effect .* is damaged/],
  ['UPDATE effect SET session=99 WHERE n=3', /a session that is not there/],
  ["UPDATE effect SET refs=x'00' WHERE n=3", /damaged list of references/],
  ["UPDATE effect SET text='x' WHERE n=3", /Effect .* is damaged/],
  ["UPDATE checkpoint SET body=replace(body, 'retention', 'retentiom') WHERE n=1", /tombstone is damaged/],
  ['UPDATE ref SET session=99', /session number 99/],
  ["UPDATE session SET name='other' WHERE n=1", /another session/],
  ['DELETE FROM epoch', /counts of removed sessions/],
])('%s is found', async (sql, finding) => {
  expect(await findingsAfter(sql)).toContainEqual(expect.stringMatching(finding));
});

/** Makes the key in the middle of a table's first page too large: whoever looks for a later row begins again after it. */
function misdirect(file: string, table: string): void {
  const db = openDatabase(file);
  const { rootpage } = db.prepare('SELECT rootpage FROM sqlite_schema WHERE name=?').get(table) as { rootpage: number };
  db.close();
  const bytes = readFileSync(file);
  const pageAt = (rootpage - 1) * bytes.readUInt16BE(16);
  const middle = (bytes.readUInt16BE(pageAt + 3) - 1) >> 1;
  const keyAt = pageAt + bytes.readUInt16BE(pageAt + 12 + 2 * middle) + 4;
  bytes.writeUInt16BE(0xff7f, keyAt);
  writeFileSync(file, bytes);
}

test('[durability.2] a table that leads in circles is reported, and the check ends', async () => {
  const file = join(folder, 'circles.db');
  const make = new Builders();
  const chunks = Array.from({ length: 600 }, (_, i) => make.chunk([], JSON.stringify(`${i} ${'x'.repeat(500)}`)));
  const [first] = chunks;
  {
    await using storage = new SqliteCheckpointStorage({ path: file });
    const root = first && { root: contentOf(first) };
    await storage.commit(commitOf(make.checkpoint({ sessionId: 's', ...root }), { chunks }));
  }
  misdirect(file, 'chunk');
  await using storage = new SqliteCheckpointStorage({ path: file });
  expect(await storage.checkIntegrity()).toContainEqual(expect.stringContaining('A table leads in circles'));
});

test('[durability.2] gc refuses a table that leads in circles, and ends', async () => {
  const file = join(folder, 'circles.db');
  const make = new Builders();
  {
    await using storage = new SqliteCheckpointStorage({ path: file });
    const chunk = make.chunk([], '"x"');
    for (let i = 0; i < 40; i++) {
      const effects = Array.from({ length: 40 }, (_, at) =>
        make.effect({
          sessionId: 's',
          ordinal: 40 * i + at,
          result: { text: `["${'x'.repeat(200)}"]`, refs: [chunk.digest] },
        }),
      );
      await storage.commit({ sessionId: 's' as SessionId, chunks: [chunk], effects });
    }
  }
  misdirect(file, 'effect');
  await using storage = new SqliteCheckpointStorage({ path: file });
  await expect(storage.collect()).rejects.toMatchObject({ code: 'CORRUPT' });
});

test('a damaged page is reported by the check, and is an error of ours to a reader', async () => {
  const bytes = readFileSync(path);
  const pageBytes = 4096;
  // Every page after the schema's is made garbage, except those SQLite needs to open the file.
  for (let at = 16 * pageBytes; at < bytes.length; at += pageBytes) bytes.fill(0xa5, at, at + 200);
  writeFileSync(path, bytes);
  await using storage = new SqliteCheckpointStorage({ path });
  const findings = await storage.checkIntegrity();
  expect(findings.length).toBeGreaterThan(0);
  await expect(storage.listCheckpoints({ limit: 100, include: 'all' })).rejects.toMatchObject({ code: 'CORRUPT' });
});
