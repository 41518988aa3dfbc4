import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { describe, test } from 'vitest';
import { checkChunk } from '../core/tree/chunk.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { Builders, commitOf, contentOf, rowWithRootOf } from './contract/builders.ts';
import { assertRejects } from './contract/contract-test.ts';
import { type FaultPlan, faultyStorage } from './faulty-storage.ts';
import { storageContract } from './storage-contract.ts';

function setUp(plan: FaultPlan) {
  const inner = new InMemoryCheckpointStorage();
  return { make: new Builders(), inner, storage: faultyStorage(inner, plan) };
}

storageContract('faultyStorage without faults', {
  describe,
  test,
  open: async () => faultyStorage(new InMemoryCheckpointStorage(), {}),
});

test('the chosen commit fails and writes nothing; the others are stored', async () => {
  const { make, inner, storage } = setUp({ commits: { 2: 'fails' } });
  const [a, b, c] = [make.checkpoint(), make.checkpoint(), make.checkpoint()];
  await storage.commit(commitOf(a));
  await assertRejects(storage.commit(commitOf(b)), 'STORAGE');
  await storage.commit(commitOf(c));
  const ids = (await inner.listCheckpoints({ order: 'oldest', limit: 9 })).map((row) => row.id);
  assert.deepEqual(ids, [a.header.id, c.header.id]);
});

test('a commit whose reply is lost rejects and is stored', async () => {
  const { make, inner, storage } = setUp({ commits: { 1: 'loses_reply' } });
  const a = make.checkpoint({ idempotencyKey: 'once' });
  await assertRejects(storage.commit(commitOf(a)), 'STORAGE');
  assert.deepEqual(await inner.readCheckpoint(a.header.id), rowWithRootOf(a));
  assert.deepEqual(await storage.commit(commitOf(a)), { status: 'duplicate', id: a.header.id });
});

test('a commit whose request is lost rejects alike and is not stored; both say that they do not know', async () => {
  const { make, inner, storage } = setUp({ commits: { 1: 'loses_request', 2: 'loses_reply' } });
  const [a, b] = [make.checkpoint(), make.checkpoint()];
  for (const checkpoint of [a, b])
    await assert.rejects(storage.commit(commitOf(checkpoint)), { details: { outcome: 'unknown' } });
  assert.equal(await inner.readCheckpoint(a.header.id), undefined);
  assert.deepEqual(await inner.readCheckpoint(b.header.id), rowWithRootOf(b));
});

test('chosen chunks are altered by one character, or missing', async () => {
  const plan: FaultPlan = {};
  const { make, storage } = setUp(plan);
  const [good, altered, missing] = [make.chunk(), make.chunk(), make.chunk()];
  await storage.commit(
    commitOf(make.checkpoint({ root: contentOf(good, altered, missing) }), { chunks: [good, altered, missing] }),
  );
  plan.chunks = { [altered.digest]: 'altered', [missing.digest]: 'missing' };
  const [first, second, third] = await storage.readChunks([good.digest, altered.digest, missing.digest]);
  assert.deepEqual(first, good);
  assert.ok(second !== undefined && second.text.length === altered.text.length);
  assert.equal([...second.text].filter((character, n) => character !== altered.text[n]).length, 1);
  assert.throws(() => checkChunk(second), { code: 'CORRUPT' });
  assert.equal(third, undefined);
});

test('chosen roots are altered', async () => {
  const plan: FaultPlan = {};
  const { make, storage } = setUp(plan);
  const [a, b] = [make.checkpoint(), make.checkpoint()];
  await storage.commit(commitOf(a));
  await storage.commit(commitOf(b));
  plan.alteredRoots = [a.header.id];
  assert.notDeepEqual((await storage.readCheckpoint(a.header.id))?.root, a.root);
  assert.deepEqual(await storage.readCheckpoint(b.header.id), rowWithRootOf(b));
});

test('a call is held up as long as the plan wants, and others pass it', async () => {
  const gate = new EventEmitter();
  const held = once(gate, 'open').then(() => undefined);
  const { make, storage } = setUp({ delay: (method, nth) => (method === 'commit' && nth === 1 ? held : undefined) });
  const [slow, fast] = [make.checkpoint(), make.checkpoint()];
  const slowCommit = storage.commit(commitOf(slow));
  await storage.commit(commitOf(fast));
  assert.deepEqual(
    (await storage.listCheckpoints({ limit: 9 })).map((row) => row.id),
    [fast.header.id],
  );
  gate.emit('open');
  await slowCommit;
  assert.equal((await storage.listCheckpoints({ limit: 9 })).length, 2);
});
