import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeLater } from '../../../test/support/later.ts';
import { startS3 } from '../../../test/support/s3-double.ts';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { backup } from '../../manager/backup/backup.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import { encrypted } from '../encryption/encrypted.ts';
import { Keyring } from '../encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../sqlite/sqlite-storage.ts';
import { FolderObjects } from './folder-objects.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';
import { S3Objects } from './s3-objects.ts';
import { signRequest } from './signature.ts';
import { withObjects } from './with-objects.ts';

const AGE_MS = 7 * 86_400_000;

/** Objects in memory that seem to be old, so that gc may delete them, and can be cut off after a put. */
class OldObjects implements ObjectStore {
  readonly all = new Map<string, Uint8Array>();
  afterPut: () => void = () => undefined;
  async put(name: string, bytes: Uint8Array): Promise<void> {
    this.all.set(name, bytes);
    this.afterPut();
  }
  async get(name: string, { from, to }: { from: number; to: number }): Promise<Uint8Array | undefined> {
    const bytes = this.all.get(name);
    return bytes === undefined || bytes.length < to ? undefined : bytes.subarray(from, to);
  }
  async delete(name: string): Promise<void> {
    this.all.delete(name);
  }
  async *list(): AsyncGenerator<StoredObject> {
    for (const [name, bytes] of this.all) yield { name, bytes: bytes.length, modifiedMs: Date.now() - AGE_MS };
  }
}

storageContract('withObjects(memory)', {
  describe,
  test,
  open: async () => withObjects(new InMemoryCheckpointStorage(), new OldObjects(), { minBytes: 1 }),
});

const folders = new WeakMap<object, string>();
const openIn = (folder: string) => {
  const inner = new SqliteCheckpointStorage({ path: join(folder, 'test.db'), durability: 'process' });
  const storage = withObjects(inner, new FolderObjects(join(folder, 'objects')), { minBytes: 1 });
  folders.set(storage, folder);
  return storage;
};

storageContract('withObjects(sqlite, a folder)', {
  describe: describeLater,
  test,
  open: async () => {
    const folder = mkdtempSync(join(SCRATCH_ROOT, 'savestate-objects-'));
    return { storage: openIn(folder), dispose: async () => rmSync(folder, { recursive: true, force: true }) };
  },
  reopen: async (storage) => {
    await storage.close();
    return openIn(folders.get(storage) ?? '');
  },
  skip: {
    '[storage.16] a collection gives space back': 'objects are deleted when they are old',
    '[storage.19] stats count what is there, and bytes grow': 'bytes are those of the storage, without objects',
  },
});

async function listAll(objects: ObjectStore): Promise<StoredObject[]> {
  const listed: StoredObject[] = [];
  for await (const object of objects.list()) listed.push(object);
  return listed;
}

/** The same objects, and all of them seem to be old. */
function aged(objects: ObjectStore): ObjectStore {
  return {
    put: (...given) => objects.put(...given),
    get: (...given) => objects.get(...given),
    delete: (...given) => objects.delete(...given),
    replace: async (...given) => objects.replace?.(...given),
    async *list() {
      for await (const object of objects.list()) yield { ...object, modifiedMs: Date.now() - AGE_MS };
    },
  };
}

const image = (seed: number) => Uint8Array.from({ length: 200_000 }, (_, n) => (n * (seed + 7)) % 251);

describe.each(['folder', 's3'])('in a %s', (kind) => {
  const create = async (): Promise<ObjectStore> =>
    kind === 'folder'
      ? new FolderObjects(join(temporaryFolder(), 'objects'))
      : new S3Objects(
          await startS3().then(({ endpoint, bucket, region, credentials }) => ({
            endpoint,
            bucket,
            region,
            credentials,
            prefix: 'a/b-1/',
          })),
        );

  test('[objects.1] a large value is one object, small ones stay, and all come back, encrypted too', async () => {
    const objects = await create();
    const inner = new InMemoryCheckpointStorage();
    const storage = encrypted(withObjects(inner, objects), { keys: Keyring.create() });
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s', { initial: { picture: image(1), note: 'small' } });
    const first = await session.save();
    session.state.note = 'other';
    const second = await session.save();
    const listed = await listAll(objects);
    expect(listed).toMatchObject([{ name: expect.stringMatching(/^[0-9a-f]{64}-/), bytes: expect.any(Number) }]);
    expect(listed[0]?.bytes).toBeGreaterThan(200_000);
    expect((await inner.stats()).bytes).toBeLessThan(50_000);
    for (const id of [first, second])
      expect(((await new CheckpointManager({ storage }).load(id)) as { picture: Uint8Array }).picture).toEqual(
        image(1),
      );
    expect((await manager.verify()).status).toBe('clean');
    const copy = new InMemoryCheckpointStorage();
    expect(await backup(withObjects(inner, objects), copy)).toMatchObject({ status: 'complete', checkpoints: 2 });
  });

  test('[objects.2] what was deleted does not live on in an object that others still need', async () => {
    const objects = await create();
    const storage = withObjects(new InMemoryCheckpointStorage(), aged(objects));
    const manager = new CheckpointManager({ storage });
    const ann = await manager.session('ann', { initial: { shared: image(1), own: image(2) } });
    await ann.save();
    const [object] = await listAll(objects);
    const bob = await manager.session('bob', { initial: { shared: image(1) } });
    const kept = await bob.save();
    const read = async () =>
      Buffer.from((await objects.get(object?.name ?? '', { from: 0, to: object?.bytes ?? 0 })) ?? []);
    const own = Buffer.from(image(2).subarray(30_000, 30_300)).toString('base64');
    expect((await read()).includes(own)).toBe(true);
    await manager.deleteSession('ann');
    await manager.gc();
    expect((await read()).includes(own)).toBe(false);
    expect(await new CheckpointManager({ storage }).load(kept)).toEqual({ shared: image(1) });
    await manager.gc();
    expect((await manager.verify()).status).toBe('clean');
    await manager.deleteSession('bob');
    await manager.gc();
    expect(await listAll(objects)).toEqual([]);
  });
});

test('[objects.1] options of a folder, of which there are none, are refused', () => {
  expect(() => Reflect.construct(FolderObjects, ['x', { a: 1 }])).toThrow('takes a folder, and no options');
});

test('[objects.2] gc deletes objects that nothing needs, and no others, and none that are young', async () => {
  const objects = new OldObjects();
  const storage = withObjects(new InMemoryCheckpointStorage(), objects);
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s', { initial: { picture: image(1) } });
  const first = await session.save();
  await session.save({ picture: image(2) });
  expect(objects.all.size).toBe(2);
  await manager.delete(first);
  expect((await manager.gc()).bytes).toBeGreaterThan(200_000);
  expect(objects.all.size).toBe(1);
  expect((await manager.verify()).status).toBe('clean');
  const young = new FolderObjects(temporaryFolder());
  await young.put('abc-1', image(3));
  await withObjects(new InMemoryCheckpointStorage(), young).collect();
  expect(await young.get('abc-1', { from: 0, to: 3 })).toEqual(image(3).subarray(0, 3));
});

test('[objects.2] gc leaves alone what was not named by it: files of others, and objects below a longer prefix', async () => {
  const objects = new OldObjects();
  const name = `${'ab'.repeat(32)}-00000000-0000-4000-8000-000000000000`;
  for (const other of ['photo.jpg', 'abc', `eu/${name}`]) await objects.put(other, image(1));
  await objects.put(name, image(1));
  await withObjects(new InMemoryCheckpointStorage(), objects).collect();
  expect([...objects.all.keys()]).toEqual(['photo.jpg', 'abc', `eu/${name}`]);
});

test('[objects.2] a crash between the object and the commit leaves an object that gc deletes', async () => {
  const objects = new OldObjects();
  const storage = withObjects(new InMemoryCheckpointStorage(), objects);
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s', { initial: { picture: image(1) } });
  await session.save();
  objects.afterPut = () => {
    throw new Error('killed');
  };
  await expect(session.save({ picture: image(2) })).rejects.toThrow('killed');
  objects.afterPut = () => undefined;
  expect(objects.all.size).toBe(2);
  await manager.gc();
  expect(objects.all.size).toBe(1);
  expect((await new CheckpointManager({ storage }).verify()).status).toBe('clean');
});

test('[objects.2] writers at once, beside gc, lose nothing; commits of a session keep their order', async () => {
  const objects = new OldObjects();
  const put = objects.put.bind(objects);
  objects.put = async (name, bytes) => {
    await new Promise((resolve) => setImmediate(resolve));
    await put(name, bytes);
  };
  // Objects of commits under way are young.
  const young = new Set<string>();
  const storage = withObjects(new InMemoryCheckpointStorage(), {
    put: async (name, bytes) => {
      young.add(name);
      await objects.put(name, bytes);
    },
    get: objects.get.bind(objects),
    delete: objects.delete.bind(objects),
    async *list() {
      for await (const object of objects.list())
        yield young.has(object.name) ? { ...object, modifiedMs: Date.now() } : object;
    },
  });
  const manager = new CheckpointManager({ storage });
  const write = async (writer: number) => {
    const session = await manager.session(`s${writer}`, { initial: { picture: image(0), n: 0 } });
    for (let n = 1; n <= 5; n++) {
      session.state.picture = image(n % 3);
      const large = session.save();
      session.state.n = n;
      await Promise.all([large, session.save()]);
      if (n === 3) young.clear();
      await manager.prune({ policy: { keepLast: 2 } });
      await manager.gc();
    }
  };
  await Promise.all([write(1), write(2), write(3)]);
  expect((await manager.verify()).findings).toEqual([]);
  young.clear();
  await manager.gc();
  expect((await manager.verify()).findings).toEqual([]);
});

test('[objects.2] a missing, cut or damaged object is CORRUPT with the digest, and verify names it', async () => {
  const folder = temporaryFolder();
  const storage = withObjects(new InMemoryCheckpointStorage(), new FolderObjects(folder));
  const manager = new CheckpointManager({ storage });
  const id = await (await manager.session('s', { initial: { picture: image(1) } })).save();
  const [part = ''] = readdirSync(folder);
  const path = join(folder, part, readdirSync(join(folder, part))[0] ?? '');
  for (const damage of [
    () =>
      writeFileSync(
        path,
        image(1).map((byte) => byte ^ 1),
      ),
    () => writeFileSync(path, 'cut'),
    () => rmSync(path),
  ]) {
    damage();
    await expect(new CheckpointManager({ storage }).load(id)).rejects.toMatchObject({
      code: 'CORRUPT',
      details: { digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect((await manager.verify()).damagedCheckpoints).toEqual([id]);
  }
});

test('[objects.2] requests are signed, repeated when the server fails, never overwrite, and say what was refused', async () => {
  const { objects, refused, faults, ...place } = await startS3();
  const store = new S3Objects({ ...place, prefix: 'p/' });
  faults.push(500, 'cut');
  await store.put('abc-1', image(1));
  await store.put('abc-1', image(2)); // its name is taken
  expect([...objects.keys()]).toEqual(['p/abc-1']);
  expect(await store.get('abc-1', { from: 10, to: 20 })).toEqual(image(1).subarray(10, 20));
  expect(await store.get('abc-1', { from: 199_990, to: 200_010 })).toBeUndefined();
  expect(await store.get('none', { from: 0, to: 1 })).toBeUndefined();
  for (let n = 2; n < 9; n++) await store.put(`abc-${n}`, new Uint8Array(n));
  const names: string[] = [];
  for await (const { name } of store.list()) names.push(name);
  expect(names).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((n) => `abc-${n}`));
  await store.delete('abc-1');
  await store.delete('abc-1');
  expect(refused).toEqual([]);
  const wrong = new S3Objects({
    ...place,
    credentials: async () => ({ ...place.credentials, secretAccessKey: 'other' }),
  });
  await expect(wrong.put('abc-9', image(1))).rejects.toThrow(/status 403, SignatureDoesNotMatch. no & no/);
  expect(refused).toHaveLength(1); // and was not repeated
  const away = new S3Objects({ ...place, endpoint: 'http://127.0.0.1:1' });
  await expect(away.put('abc-9', image(1))).rejects.toThrow(/(ECONNREFUSED|bad port).*Check the endpoint/);
  expect(() => new S3Objects({ ...place, endpoint: 'ftp://x' })).toThrow('endpoint');
  expect(() => new S3Objects({ ...place, secret: 1 } as never)).toThrow('secret');
});

test('[objects.2] a put that meets an earlier attempt of its own is repeated; one without credentials is not taken for done', async () => {
  const { objects, faults, refused, ...place } = await startS3();
  faults.push(409); // two conditional requests at once: the first one timed out here, and is still under way there
  await new S3Objects(place).put('abc-1', image(1));
  expect([...objects.keys()]).toEqual(['abc-1']);
  faults.push(412);
  await expect(new S3Objects(place).put('abc-2', image(1))).rejects.toThrow('and has none');
  const none = new S3Objects({ ...place, credentials: () => Promise.reject('signed out') });
  await expect(none.put('abc-2', image(1))).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringContaining('signed out'),
  });
  expect([...objects.keys()]).toEqual(['abc-1']);
  expect(refused).toEqual([]);
});

test("[objects.2] the signature is that of Amazon's own example", () => {
  const credentials = {
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  };
  const url = new URL('https://examplebucket.s3.amazonaws.com/test.txt');
  const signing = { region: 'us-east-1', credentials, date: new Date('2013-05-24T00:00:00Z') };
  const { authorization } = signRequest({ method: 'GET', url, headers: { range: 'bytes=0-9' } }, signing);
  expect(authorization).toContain('f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
});
