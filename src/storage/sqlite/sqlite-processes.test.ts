import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { build } from 'vite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cleanUpLater } from '../../../test/support/clean-up.ts';
import { LATER } from '../../../test/support/later.ts';
import { builtFolder } from '../../../test/support/on-demand.ts';
import { Builders, commitOf, contentOf, deletionOf } from '../../testing/contract/builders.ts';
import { openDatabase } from '../database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

/** Children run the compiled package, which `npm test` builds first. */
const DIST = pathToFileURL(`${builtFolder()}/`);
/** The builders for processes: the built library has them inside other modules only. */
const BUILDERS = await bundle('../../testing/contract/builders.ts');

async function bundle(source: string): Promise<string> {
  const outDir = mkdtempSync(join(tmpdir(), 'savestate-builders-'));
  cleanUpLater(async () => rmSync(outDir, { recursive: true }));
  const ssr = join(import.meta.dirname, source);
  await build({ configFile: false, logLevel: 'silent', build: { ssr, outDir, emptyOutDir: false } });
  return pathToFileURL(join(outDir, 'builders.js')).href;
}

/** Longer than a test: how soon another process has its turn is the machine's affair. */
const busyTimeoutMs = 600_000;

let folder: string;
let path: string;
let children: ChildProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-processes-'));
  path = join(folder, 'test.db');
  children = [];
});

afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

/** Starts a process that has the storage class `S`, the builders `b`, the `path`, and says things with `say`. */
function start(script: string): ChildProcess {
  const source = `
    import { SqliteCheckpointStorage as S } from '${DIST}storage/sqlite/sqlite-storage.js';
    import { openDatabase } from '${DIST}storage/database/sqlite-driver.js';
    import * as b from '${BUILDERS}';
    const [path, busyTimeoutMs] = [${JSON.stringify(path)}, ${busyTimeoutMs}];
    const say = (text) => process.stdout.write(text + '\\n');
    ${script}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  return child;
}

async function heard(child: ChildProcess, text: string): Promise<void> {
  let all = '';
  for await (const part of child.stdout ?? []) {
    all += String(part);
    if (all.includes(text)) return;
  }
  throw new Error(`The process ended without saying "${text}"; it said "${all}".`);
}

async function exitCode(child: ChildProcess): Promise<unknown> {
  if (child.exitCode !== null) return child.exitCode;
  const [code] = await once(child, 'exit');
  return code;
}

const HOLD_LOCK = `
  const db = openDatabase(path); db.exec('PRAGMA busy_timeout=600000; BEGIN IMMEDIATE'); say('held');
  process.stdin.once('data', () => { db.exec('COMMIT'); db.close(); process.exit(0); });`;

test('several processes may create the same file at once', LATER, async () => {
  const script = `
    const storage = new S({ path, busyTimeoutMs });
    const make = new b.Builders(process.pid);
    for (let i = 0; i < 20; i++) await storage.commit(b.commitOf(make.checkpoint({ sessionId: 's-' + process.pid })));
    await storage.close();`;
  const codes = await Promise.all(Array.from({ length: 6 }, () => exitCode(start(script))));
  expect(codes).toEqual([0, 0, 0, 0, 0, 0]);
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs });
  expect(await storage.stats()).toMatchObject({ checkpoints: 120, sessions: 6 });
  expect(await storage.checkIntegrity()).toEqual([]);
});

test('a commit waits for another process without blocking this one', async () => {
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs });
  const child = start(HOLD_LOCK);
  await heard(child, 'held');
  let isOver = false;
  const committed = storage.commit(commitOf(new Builders().checkpoint())).finally(() => {
    isOver = true;
  });
  // The other process lets go only because this one has its turns: a commit that blocked it would wait in vain, and fail.
  for (let turn = 0; turn < 1_000; turn++) await nextTurn();
  expect(isOver).toBe(false);
  child.stdin?.write('go\n');
  expect(await committed).toEqual({ status: 'stored' });
});

test('a lock that is never released becomes an error that says so, and reading goes on', async () => {
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs: 100 });
  const make = new Builders();
  const first = make.checkpoint();
  await storage.commit(commitOf(first));
  const child = start(HOLD_LOCK);
  await heard(child, 'held');
  await expect(storage.commit(commitOf(make.checkpoint()))).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringMatching(/another process/),
  });
  await expect(storage.deleteCheckpoints([deletionOf(first)])).rejects.toMatchObject({ code: 'STORAGE' });
  expect(await storage.readCheckpoint(first.header.id)).toMatchObject({ id: first.header.id });
  child.stdin?.write('go\n');
  await exitCode(child);
  expect(await storage.commit(commitOf(make.checkpoint()))).toEqual({ status: 'stored' });
});

test('what was acknowledged before a kill is there', async () => {
  const child = start(`
    const storage = new S({ path, busyTimeoutMs, durability: 'process' });
    const make = new b.Builders();
    for (let i = 1; ; i++) {
      await storage.commit(b.commitOf(make.checkpoint()));
      say('done ' + i + '.');
    }`);
  await heard(child, 'done 50.');
  child.kill('SIGKILL');
  await exitCode(child);
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs });
  expect((await storage.stats()).checkpoints).toBeGreaterThanOrEqual(50);
  expect(await storage.checkIntegrity()).toEqual([]);
});

test(
  '[durability.8] a log that other processes empty, restart and leave at their end is not taken for one that was cut',
  LATER,
  async () => {
    const script = `
    const make = new b.Builders(process.pid);
    for (let round = 0; round < 15; round++) {
      const storage = new S({ path, busyTimeoutMs, durability: 'process' });
      for (let i = 0; i < 10; i++) {
        await storage.commit(b.commitOf(make.checkpoint({ sessionId: 's-' + process.pid })));
        const other = openDatabase(path);
        other.exec('PRAGMA wal_checkpoint(' + ['TRUNCATE', 'RESTART', 'PASSIVE'][i % 3] + ')');
        other.close();
        await storage.stats();
      }
      await storage.close();
    }`;
    const running = [start(script), start(script)];
    await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs, durability: 'process' });
    const make = new Builders();
    let commits = 0;
    while (running.some(({ exitCode: code }) => code === null)) {
      expect(await storage.commit(commitOf(make.checkpoint()))).toEqual({ status: 'stored' });
      commits++;
    }
    expect(await Promise.all(running.map(exitCode))).toEqual([0, 0]);
    expect((await storage.stats()).checkpoints).toBe(300 + commits);
    expect(await storage.checkIntegrity()).toEqual([]);
  },
);

test('collections of one process spare what another commits, also chunks that were garbage before', async () => {
  const child = start(`
    const storage = new S({ path, busyTimeoutMs, durability: 'process' });
    say('ready');
    let isDone = false;
    process.stdin.once('data', () => { isDone = true; });
    let removed = 0;
    while (!isDone) { removed += (await storage.collect()).chunks; await new Promise(setImmediate); }
    await storage.close();
    process.exit(removed > 0 ? 0 : 1);`);
  await heard(child, 'ready');
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs, durability: 'process' });
  const make = new Builders();
  const leaf = make.chunk();
  const hot = make.chunk([leaf.digest]);
  for (let step = 0; step < 150; step++) {
    const fresh = make.chunk();
    const checkpoint = make.checkpoint({ sessionId: `s-${step % 3}`, root: contentOf(hot, fresh) });
    const effect = make.effect({ sessionId: `s-${step % 3}`, ordinal: 0, result: contentOf(fresh) });
    await storage.commit(commitOf(checkpoint, { chunks: [leaf, hot, fresh], effects: [effect] }));
    const found = await storage.readChunks([leaf.digest, hot.digest, fresh.digest]);
    expect(found).toEqual([leaf, hot, fresh]);
    if (step % 10 === 9) await storage.deleteSession(checkpoint.header.sessionId);
    else await storage.deleteCheckpoints([deletionOf(checkpoint)]);
  }
  child.stdin?.write('stop\n');
  expect(await exitCode(child)).toBe(0);
});

test('a long read of another process does not keep a collection from ending', async () => {
  await using storage = new SqliteCheckpointStorage({ path, busyTimeoutMs });
  const make = new Builders();
  await storage.commit(commitOf(make.checkpoint(), { chunks: [make.chunk()] }));
  const reader = openDatabase(path);
  try {
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM chunk').get();
    expect((await storage.collect()).chunks).toBe(1);
  } finally {
    reader.close();
  }
});

test.each(['saves and closes', 'only closes'])(
  '[durability.8] what others save after somebody deleted the index is not lost when a process that has the old one %s',
  async (what) => {
    const make = new Builders();
    const child = start(`
      const make = new b.Builders(2);
      const storage = new S({ path, busyTimeoutMs });
      await storage.commit(b.commitOf(make.checkpoint()));
      say('open');
      process.stdin.once('data', async () => {
        const save = () => storage.commit(b.commitOf(make.checkpoint()));
        const code = ${what.startsWith('saves')} ? await save().then(() => 'saved', (error) => error.code) : 'STORAGE';
        await storage.close();
        process.exit(code === 'STORAGE' ? 0 : 1);
      });`);
    await heard(child, 'open');
    rmSync(`${path}-shm`);
    const others = [make.checkpoint(), make.checkpoint(), make.checkpoint()];
    const storage = new SqliteCheckpointStorage({ path, busyTimeoutMs });
    for (const checkpoint of others) await storage.commit(commitOf(checkpoint));
    child.stdin?.write('go\n');
    expect(await exitCode(child)).toBe(0);
    await storage.commit(commitOf(make.checkpoint()));
    await storage.close();
    await using again = new SqliteCheckpointStorage({ path, busyTimeoutMs });
    for (const { header } of others) expect(await again.readCheckpoint(header.id)).toBeDefined();
    expect(await again.listCheckpoints({ limit: 10 })).toHaveLength(5);
  },
);
