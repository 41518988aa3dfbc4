import { describe, expect, test } from 'vitest';
import { LATER, testBut } from '../../../test/support/later.ts';
import { startServer } from '../../../test/support/server.ts';
import { digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { SessionId } from '../../core/record/id.ts';
import { createChunk, type Digest } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { encrypted } from '../../storage/encryption/encrypted.ts';
import { Keyring } from '../../storage/encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import { createServer } from '../server.ts';
import { createClient } from './client.ts';
import { createRemoteStorage } from './remote-storage.ts';

/** A server takes no header that no manager writes: metadata is in the codec's form. */
const isRefused = (title: string) => title.includes('metadata keys and values may be any text');
const later = testBut(/a thousand|no other session|filter values|megabyte|every kind of character/);
const register = (title: string, body: () => Promise<void>) => (isRefused(title) ? test.skip : later)(title, body);

const clients = new WeakMap<ChunkStorage, () => Promise<ChunkStorage>>();

storageContract('The storage of a server', {
  describe,
  test: Object.assign(register, { skip: test.skip }),
  open: async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const server = createServer(manager, { token: 'a token of a test' });
    const connect = async () => {
      const client = createClient('http://localhost', { token: 'a token of a test', fetch: server.fetch });
      const storage = createRemoteStorage(client, await client.request('GET /v1/server'));
      clients.set(storage, connect);
      return storage;
    };
    const dispose = async () => {
      await server.close();
      await manager.close();
    };
    return { storage: await connect(), dispose };
  },
  reopen: async (storage) => {
    await storage.close();
    return (clients.get(storage) as () => Promise<ChunkStorage>)();
  },
});

describe('what is not what it says is refused', () => {
  const root = { text: '{"n":1}', refs: [] };
  const header = {
    id: 'chk_01hf7yat29rd52pn7xh8z4',
    sessionId: 's',
    branch: 'main',
    sequence: 1,
    type: 'routine',
    timestampMs: 1,
    stateDigest: createChunk(root).digest,
    stateBytes: 7,
  };
  const recordOf = (more: object) => {
    const body = JSON.stringify({ ...header, ...more });
    return { body, digest: digestCheckpoint(body) as string, root };
  };
  const cases: [what: string, body: object, said: string][] = [
    ['nothing', {}, 'must name one method'],
    ['two methods', { collect: [], commit: [{ sessionId: 's' }] }, 'must name one method'],
    ['another method', { close: [] }, 'Unrecognized key: "close"'],
    ['a name that is none', { commit: [{ sessionId: 'a\nb' }] }, 'A name in a commit'],
    [
      'a chunk under another digest',
      { commit: [{ sessionId: 's', chunks: [{ ...root, digest: 'f'.repeat(64) }] }] },
      'Nothing was stored. Chunk ffff',
    ],
    [
      'a record under another digest',
      { commit: [{ sessionId: 's', checkpoint: { ...recordOf({}), digest: 'f'.repeat(64) } }] },
      'Nothing was stored.',
    ],
    [
      'a record that is none',
      { commit: [{ sessionId: 's', checkpoint: recordOf({ sequence: 'first' }) }] },
      'sequence is "first"',
    ],
    [
      'the state of another',
      { commit: [{ sessionId: 's', checkpoint: { ...recordOf({}), root: { text: '2', refs: [] } } }] },
      'its root does not match',
    ],
    [
      'a record of another session',
      { commit: [{ sessionId: 's', checkpoint: recordOf({ sessionId: 't' }) }] },
      'brings something of session "t"',
    ],
  ];
  test.each(cases)('%s', async (_, body, said) => {
    const { client, manager } = await startServer();
    const sent = client.request('POST /v1/storage/change', { body });
    await expect(sent).rejects.toMatchObject({ status: 400, message: expect.stringContaining(said) });
    expect((await manager.stats()).chunks).toBe(0);
    const commit = { sessionId: 's', checkpoint: recordOf({}) }; // and what is, is taken
    expect(await client.request('POST /v1/storage/change', { body: { commit: [commit] } })).toEqual({
      result: { status: 'stored' },
    });
  });
});

describe('a reply has its bounds', () => {
  const text = (n: number) => JSON.stringify(`${n} `.padEnd(1024 ** 2, 'x'));
  const leaves = Array.from({ length: 40 }, (_, n) => createChunk({ text: text(n), refs: [] }));
  const digests = leaves.map(({ digest }) => digest);
  const node = createChunk({ text: '[]', refs: digests });

  async function open() {
    const { ask, client, manager } = await startServer();
    await manager.engine.storage.commit({ sessionId: 's' as SessionId, chunks: [...leaves, node] });
    const storage = createRemoteStorage(client, await client.request('GET /v1/server'));
    const sizeOf = async (body: object) => {
      const headers = { 'content-type': 'application/json' };
      const reply = await ask('/v1/storage/read', { method: 'POST', headers, body: JSON.stringify(body) });
      return (await reply.text()).length;
    };
    return { storage, sizeOf };
  }

  test(
    'however often a chunk is asked for, and however much can be reached; the client asks for the rest',
    LATER,
    async () => {
      const { storage, sizeOf } = await open();
      const most = 36 * 1024 ** 2; // 16 MiB, and what is read at once
      expect(await sizeOf({ readChunks: [Array.from({ length: 20_000 }, () => digests[0])] })).toBeLessThan(most);
      expect(await sizeOf({ readReachable: [[node.digest]] })).toBeLessThan(most);
      const absent = 'f'.repeat(64) as Digest;
      const asked = [...digests, absent, ...digests];
      expect(await storage.readChunks(asked)).toEqual([...leaves, undefined, ...leaves]);
      const reached = await storage.readReachable([absent, node.digest]);
      expect(new Set(reached)).toEqual(new Set([...leaves, node]));
      expect(reached).toHaveLength(41);
    },
  );
});

test('[encryption.4] what a removed key protected is told through a server, too', async () => {
  const below = new InMemoryCheckpointStorage();
  const ring = Keyring.create().add('ann');
  const keyFor = () => 'ann';
  const before = new CheckpointManager({ storage: encrypted(below, { keys: ring, keyFor }) });
  await before.save({ n: 1 }, { sessionId: 'chat', userId: 'ann' });
  const manager = new CheckpointManager({ storage: encrypted(below, { keys: ring.remove('ann'), keyFor }) });
  const server = createServer(manager, { token: 'a token of a test' });
  const client = createClient('http://localhost', { token: 'a token of a test', fetch: server.fetch });
  const remote = createRemoteStorage(client, await client.request('GET /v1/server'));
  const there = new CheckpointManager({ storage: remote });
  expect(await there.forgetUser('ann', { dryRun: true })).toMatchObject({ checkpoints: 0, unreadable: ['chat'] });
  expect(await there.verify()).toMatchObject({
    status: 'forgotten',
    forgotten: [{ sessionId: 'chat', checkpoints: 1 }],
  });
  await server.close();
});
