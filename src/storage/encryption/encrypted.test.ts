import { Buffer } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Builders, commitOf, contentOf, session } from '../../testing/contract/builders.ts';
import { createRandom } from '../../testing/contract/random.ts';
import { openDatabase, type SqlDatabase } from '../database/sqlite-driver.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { MACHINE, PROCESS_ID } from '../process-identity.ts';
import { SqliteCheckpointStorage } from '../sqlite/sqlite-storage.ts';
import { encrypted } from './encrypted.ts';
import { KeyFile } from './key-file.ts';
import { Keyring } from './keyring.ts';

type Chat = { messages: { role: string; text: string }[] };

/** A conversation whose every part has a word that can be looked for. */
function chatOf(count: number): Chat {
  const textOf = (n: number) => `plainword-message ${n} `.repeat(20);
  return { messages: Array.from({ length: count }, (_, n) => ({ role: 'user', text: textOf(n) })) };
}

/** Saves what reaches every kind of row, through the manager. */
async function fill(manager: CheckpointManager): Promise<CheckpointId> {
  const work = await manager.session<Chat>('plainword-session', { initial: chatOf(0) });
  const who = { userId: 'plainword-user', agentId: 'plainword-agent' };
  const metadata = { 'plainword-key': 'plainword-value' };
  await work.save(chatOf(1), { ...who, metadata, idempotencyKey: 'plainword-once' });
  const input = { city: 'plainword-input' };
  await work.step('plainword-step', () => ({ found: 'plainword-result '.repeat(50) }), { input });
  const id = await work.save(chatOf(8), { name: 'plainword-name', note: 'plainword-note', type: 'plainword-type' });
  await manager.tag(id, 'plainword-tag');
  await work.fork({ branch: 'plainword-branch' });
  return id;
}

const bytesBelow = (folder: string) =>
  Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));

function openPair(keys: Keyring, folder = temporaryFolder(SCRATCH_ROOT)) {
  const below = new SqliteCheckpointStorage({ path: join(folder, 'test.db'), durability: 'process' });
  return { folder, below, manager: new CheckpointManager({ storage: encrypted(below, { keys }) }) };
}

test('[encryption.1] nothing that was saved can be read or guessed from the files', async () => {
  const { folder, manager } = openPair(Keyring.create());
  const id = await fill(manager);
  const { stateDigest, digest } = await manager.open(id);
  expect(
    await manager.list({ userId: 'plainword-user', metadata: { 'plainword-key': 'plainword-value' } }),
  ).toMatchObject({
    checkpoints: [{ name: undefined }],
  });
  await manager.close();
  const bytes = bytesBelow(folder);
  expect(bytes.length).toBeGreaterThan(10_000);
  expect(bytes.includes('plainword')).toBe(false);
  expect(bytes.toString('latin1')).toMatch(/chk_/); // the scan sees what is there
  for (const known of [stateDigest, digest, digestText('"plainword"')]) {
    expect(bytes.includes(known)).toBe(false);
    expect(bytes.includes(Buffer.from(known, 'hex'))).toBe(false);
  }
});

test('[encryption.1] equal content has equal names under one key name, and others under another', async () => {
  const below = new InMemoryCheckpointStorage();
  const keys = Keyring.create().add('b');
  const storage = encrypted(below, { keys, keyFor: (id) => (id === 's-2' ? 'b' : 'main') });
  const make = new Builders();
  const shared = make.chunk();
  for (const sessionId of ['s-1', 's-1', 's-2'])
    await storage.commit(commitOf(make.checkpoint({ sessionId, root: contentOf(shared) }), { chunks: [shared] }));
  const names = await below.listChunks({ limit: 9 });
  expect(names).toHaveLength(2);
  expect(names).not.toContain(shared.digest);
  const other = new InMemoryCheckpointStorage();
  await encrypted(other, { keys: Keyring.create() }).commit({ sessionId: session('s-1'), chunks: [shared] });
  expect(names).not.toContain((await other.listChunks({ limit: 9 }))[0]);
});

/** Changes one character of a text to another that could stand there. */
const flip = (text: string, at: number) => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);

const COLUMNS = [
  ['chunk', 'text'],
  ['checkpoint', 'body'],
  ['checkpoint', 'root_text'],
  ['effect', 'body'],
  ['effect', 'text'],
] as const;

type Row = { readonly n: number; readonly value: string };

/** Every way in which somebody without the keys may change a text: bits, its end, its place, and a text of their own. */
function* tamperings(db: SqlDatabase, seed: number): Generator<{ what: string; undo: () => void }> {
  const random = createRandom(seed);
  for (const [table, column] of COLUMNS) {
    const rows = db.prepare(`SELECT n, ${column} AS value FROM ${table} WHERE ${column} IS NOT NULL`).all() as Row[];
    const write = (n: number, value: string) => db.prepare(`UPDATE ${table} SET ${column}=? WHERE n=?`).run(value, n);
    for (const { n, value } of rows) {
      const other = rows.find((row) => row.n !== n)?.value ?? '"planted"';
      // Behind its head, a text is base64; the last two characters may carry bits that mean nothing.
      const place = value.indexOf('.') + 1 + random.below(Math.max(1, value.length - value.indexOf('.') - 40));
      for (const [what, planted] of [
        ['flipped', flip(value, place)],
        ['cut off', value.slice(0, -30)],
        ['swapped', other],
        ['plain', column === 'body' ? '{"id":"planted"}' : '"planted"'],
      ] as const) {
        write(n, planted);
        yield { what: `${table}.${column} ${n} ${what}`, undo: () => write(n, value) };
      }
    }
  }
}

test('[encryption.2] what was changed, cut off, swapped or planted below is found, and never served', async () => {
  const keys = Keyring.create();
  const { folder, manager } = openPair(keys);
  await fill(manager);
  await manager.close();
  const db = openDatabase(join(folder, 'test.db'));
  const seed = 7;
  let tried = 0;
  for (const { what, undo } of tamperings(db, seed)) {
    tried++;
    const { manager: reader } = openPair(keys, folder);
    const { status, findings } = await reader.verify();
    expect([what, status]).toEqual([what, 'damaged']);
    expect(JSON.stringify(findings)).not.toContain('planted-content');
    await reader.close();
    undo();
  }
  db.close();
  expect(tried).toBeGreaterThan(40);
  const { manager: last } = openPair(keys, folder);
  expect((await last.verify()).status).toBe('clean');
  await last.close();
});

/** Says that a checkpoint was deleted, or changes the name of a session or branch, which is sealed. */
const FILED = {
  'marked as deleted': `UPDATE checkpoint SET deleted=1 WHERE n=1`,
  'of a session whose name was changed': `UPDATE session SET name=substr(name, 1, 30) || 'AAAA' || substr(name, 35) WHERE n=1`,
  'with an effect on another branch': `UPDATE effect SET branch=substr(branch, 1, 30) || 'AAAA' || substr(branch, 35)`,
};

test.each(Object.entries(FILED))(
  '[encryption.2] what is %s is damage that keeps nothing else from being read',
  async (_, sql) => {
    const keys = Keyring.create();
    const { folder, manager } = openPair(keys);
    await fill(manager);
    const kept = await manager.save({ n: 1 }, { sessionId: 'other' });
    await manager.close();
    const db = openDatabase(join(folder, 'test.db'));
    db.exec(sql);
    db.close();
    const { below, manager: reader } = openPair(keys, folder);
    const report = await reader.verify();
    expect(report).toMatchObject({ status: 'damaged' });
    expect(report.damagedCheckpoints).not.toContain(kept);
    expect((await reader.list()).checkpoints.map(({ id }) => id)).toContain(kept);
    expect(await reader.load(kept)).toEqual({ n: 1 });
    expect(report.sessions).toBe(sql.includes('UPDATE session') ? 1 : 2); // the other one is checked, too
    expect(await encrypted(below, { keys }).listSessions({ limit: 9, onDamaged: () => undefined })).toContain('other');
    await reader.prune({ policy: { keepLast: 1 } });
    await reader.close();
  },
);

test('[encryption.3] keys of another storage, missing keys and no keys are errors that say so', async () => {
  const keys = Keyring.create();
  const { folder, below, manager } = openPair(keys);
  const id = await fill(manager);
  const wrong = encrypted(below, { keys: Keyring.create() });
  await expect(wrong.readCheckpoint(id)).rejects.toMatchObject({ code: 'KEY', details: { reason: 'missing' } });
  await expect(wrong.listCheckpoints({ limit: 9 })).rejects.toMatchObject({ code: 'KEY' });
  await expect(wrong.listSessions({ limit: 9 })).rejects.toMatchObject({ code: 'KEY' });
  await expect(new CheckpointManager({ storage: below }).load(id)).rejects.toThrow('This storage is encrypted.');
  const rotated = new CheckpointManager({ storage: encrypted(below, { keys: keys.add() }) });
  const later = await (await rotated.session('plainword-session')).save(chatOf(9));
  await expect(manager.load(later)).rejects.toThrow(
    /was written with the key k_[0-9a-f]{16}, which is not among the keys/,
  );
  await manager.close();
  const plain = new SqliteCheckpointStorage({ path: join(folder, 'plain.db') });
  const plainId = await new CheckpointManager({ storage: plain }).save({ a: 1 });
  await expect(encrypted(plain, { keys }).readCheckpoint(plainId)).rejects.toThrow('is not encrypted');
  await plain.close();
});

test('[encryption.3] with another keyring no session of a storage seems to be new', async () => {
  const below = new InMemoryCheckpointStorage();
  const keys = Keyring.create();
  await new CheckpointManager({ storage: encrypted(below, { keys }) }).save({ n: 1 }, { sessionId: 'chat' });
  const stranger = new CheckpointManager({ storage: encrypted(below, { keys: Keyring.create() }) });
  const refused = { code: 'KEY', details: { reason: 'missing' } };
  await expect(stranger.session('chat', { initial: { n: 0 } })).rejects.toMatchObject(refused);
  await expect(stranger.save({ n: 0 }, { sessionId: 'new' })).rejects.toMatchObject(refused);
  const plain = new InMemoryCheckpointStorage();
  await new CheckpointManager({ storage: plain }).save({ n: 1 }, { sessionId: 'chat' });
  const late = new CheckpointManager({ storage: encrypted(plain, { keys }) });
  await expect(late.session('chat')).rejects.toMatchObject({ code: 'CORRUPT' });
  const owner = new CheckpointManager({ storage: encrypted(below, { keys }) });
  expect((await owner.session('chat')).state).toEqual({ n: 1 });
  expect((await owner.list()).checkpoints).toHaveLength(1);
});

test('[encryption.4] after a rotation the old is read, the new has the new key, and a removed key takes its data along', async () => {
  const first = Keyring.create();
  const { folder, manager } = openPair(first);
  const old = await manager.save({ text: 'before '.repeat(99) }, { sessionId: 's' });
  await manager.close();
  const both = first.add();
  const { manager: rotated } = openPair(both, folder);
  const work = await rotated.session('s');
  expect(work.state).toEqual({ text: 'before '.repeat(99) });
  const fresh = await work.save({ text: 'after '.repeat(99) });
  expect((await rotated.verify()).status).toBe('clean');
  await rotated.close();
  const [oldest] = both.list();
  const { manager: left } = openPair(both.remove(oldest?.id ?? ''), folder);
  expect(await left.load(fresh)).toEqual({ text: 'after '.repeat(99) });
  await expect(left.load(old)).rejects.toThrow(/cannot be read any more: its key k_\w+ was removed on 20/);
  await left.close();
});

test('[encryption.4] forgetting a key name loses its sessions alone, and for good', async () => {
  const below = new InMemoryCheckpointStorage();
  const keyFor = (id: string) => id.split('/')[0] ?? '';
  const keys = Keyring.create().add('ann').add('bob');
  const before = new CheckpointManager({ storage: encrypted(below, { keys, keyFor }) });
  for (const user of ['ann', 'bob']) await (await before.session(`${user}/chat`)).save(chatOf(30), { userId: user });
  const after = new CheckpointManager({ storage: encrypted(below, { keys: keys.remove('ann'), keyFor }) });
  expect((await after.session('bob/chat')).state).toEqual(chatOf(30));
  expect((await after.list()).checkpoints.map(({ sessionId }) => sessionId)).toEqual(['bob/chat']);
  await expect(after.session('ann/chat')).rejects.toMatchObject({ code: 'KEY', details: { reason: 'removed' } });
  const { status, findings, damagedCheckpoints, forgotten } = await after.verify();
  expect([status, findings, damagedCheckpoints]).toEqual(['forgotten', [], []]);
  expect(forgotten).toEqual([{ sessionId: 'ann/chat', checkpoints: 1 }]);
  // The new key of the same name opens nothing old, and is no reason to write on.
  const again = new CheckpointManager({ storage: encrypted(below, { keys: keys.remove('ann').add('ann'), keyFor }) });
  await expect(again.session('ann/chat')).rejects.toMatchObject({ code: 'KEY' });
  await again.deleteSession('ann/chat');
  await again.gc();
  await (await again.session('ann/chat')).save(chatOf(2));
  expect((await again.verify()).status).toBe('clean');
});

test('[encryption.5] a session keeps its key name, and brings along what it takes from another', async () => {
  const below = new InMemoryCheckpointStorage();
  const keys = Keyring.create().add('a').add('b');
  const make = new Builders();
  const leaf = make.chunk();
  const node = createChunk(contentOf(leaf));
  const from = make.checkpoint({ sessionId: 'a', root: contentOf(node) });
  const storage = encrypted(below, { keys, keyFor: (id) => id });
  await storage.commit(commitOf(from, { chunks: [leaf, node] }));
  const copy = make.checkpoint({ sessionId: 'b', root: contentOf(node) });
  await storage.commit(commitOf(copy, { requires: [from.header.id] }));
  const onlyB = encrypted(below, { keys: keys.remove('a') });
  expect(await onlyB.readReachable(copy.root.refs as Digest[])).toHaveLength(2);
  // Without keyFor it goes on under the name that it has.
  const next = make.checkpoint({ sessionId: 'b', parent: copy, root: contentOf(node) });
  await onlyB.commit(commitOf(next, { requires: [copy.header.id] }));
  expect(await onlyB.readReachable(next.root.refs as Digest[])).toHaveLength(2);
});

test('[encryption.5] a key that another process added is read when it is met, and made where it is needed', async () => {
  const below = new InMemoryCheckpointStorage();
  let ring = Keyring.create();
  const keys = { read: async () => ring, add: async (name: string) => (ring = ring.add(name)) };
  const reader = new CheckpointManager({ storage: encrypted(below, { keys }) });
  await reader.save({ a: 1 });
  const writer = new CheckpointManager({ storage: encrypted(below, { keys, keyFor: (id) => id }) });
  const id = await writer.save({ b: 2 }, { sessionId: 'new' });
  expect(ring.list().map(({ name }) => name)).toEqual(['main', 'new']);
  expect(await reader.load(id)).toEqual({ b: 2 });
  const fixed = new CheckpointManager({ storage: encrypted(below, { keys: ring, keyFor: () => 'nobody' }) });
  await expect(fixed.save({ c: 3 }, { sessionId: 'other' })).rejects.toThrow('There is no key "nobody"');
});

test('[encryption.4] a key removed through a link is gone from the file behind it', async () => {
  const folder = temporaryFolder(SCRATCH_ROOT);
  const real = new KeyFile(join(folder, 'real.keys'));
  await real.create();
  const link = new KeyFile(join(folder, 'link.keys'));
  symlinkSync(real.path, link.path);
  await link.update((ring) => ring.add('ann'));
  await link.update((ring) => ring.remove('ann'));
  expect(lstatSync(link.path).isSymbolicLink()).toBe(true);
  expect((await real.read()).list()).toMatchObject([{ name: 'main' }, { name: 'ann', removedAt: expect.any(Date) }]);
});

test('[encryption.6] the lock of a process that died does not hold a key file up; that of one that lives does', async () => {
  const file = new KeyFile(join(temporaryFolder(SCRATCH_ROOT), 'k'));
  await file.create();
  const child = spawnSync(process.execPath, ['-p', 'process.pid']);
  writeFileSync(`${file.path}.lock`, `${MACHINE} ${String(child.stdout).trim()}-1`);
  await Promise.all([file.update((ring) => ring.add('ann')), file.update((ring) => ring.add('bob'))]);
  expect((await file.read()).list().map(({ name }) => name)).toEqual(['main', 'ann', 'bob']);
  expect(readdirSync(join(file.path, '..'))).toEqual(['k']);
  writeFileSync(`${file.path}.lock`, `${MACHINE} ${PROCESS_ID}`);
  await expect(file.update((ring) => ring.add())).rejects.toThrow('Another process is changing');
}, 30_000);

test('[encryption.6] a process that was killed at any point of locking does not hold a key file up', async () => {
  const file = new KeyFile(join(temporaryFolder(SCRATCH_ROOT), 'k'));
  await file.create();
  const dead = `${MACHINE} ${String(spawnSync(process.execPath, ['-p', 'process.pid']).stdout).trim()}-1`;
  const [lock, past] = [`${file.path}.lock`, new Date(Date.now() - 60_000)];
  writeFileSync(lock, ''); // older versions made it first, and wrote then
  expect(await file.create()).toBe(false);
  utimesSync(lock, past, past);
  await file.add('ann');
  for (const name of [lock, `${lock}.dead`, `${lock}.dead.dead`]) writeFileSync(name, dead);
  await file.add('bob');
  expect((await file.read()).list().map(({ name }) => name)).toEqual(['main', 'ann', 'bob']);
  expect(readdirSync(join(file.path, '..'))).toEqual(['k']);
}, 30_000);

test('[encryption.6] a keyring that is printed shows no secret, and two entries of one name are refused', () => {
  const ring = Keyring.create();
  const { names, entries } = ring.content;
  const printed = inspect({ ring }, { depth: 9, showHidden: true }) + JSON.stringify({ ring });
  for (const secret of [names, entries[0]?.digests, entries[0]?.keys[0]?.secret]) expect(printed).not.toContain(secret);
  expect(printed).toContain('main');
  const text = JSON.stringify({ ...ring.content, entries: [...entries, ...Keyring.create().content.entries] });
  expect(() => Keyring.parse(text)).toThrow('two entries named "main"');
});
