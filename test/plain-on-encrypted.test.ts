import { Readable } from 'node:stream';
import { HumanMessage } from '@langchain/core/messages';
import { expect, test } from 'vitest';
import { SavestateSessionStore } from '../src/adapter/claude/savestate-session-store.ts';
import { SavestateSaver } from '../src/adapter/langgraph/saver/savestate-saver.ts';
import { SavestateStore } from '../src/adapter/langgraph/store/savestate-store.ts';
import { SavestateSession } from '../src/adapter/openai-agents/savestate-session.ts';
import { CheckpointManager } from '../src/manager/checkpoint-manager.ts';
import { Workers } from '../src/manager/workers/workers.ts';
import type { ChunkStorage } from '../src/storage/contract.ts';
import { encrypted } from '../src/storage/encryption/encrypted.ts';
import { Keyring } from '../src/storage/encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../src/storage/memory/memory-storage.ts';
import { checkpointOf, putValues, ROOT, threadConfig } from './support/langgraph.ts';
import { startServer } from './support/server.ts';
import { STORAGES } from './support/storages.ts';

const REFUSED = { code: 'KEY', details: { reason: 'missing' } };

async function exported(sessionId: string): Promise<string> {
  const from = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await from.save({ n: 0 }, { sessionId });
  let text = '';
  for await (const line of from.exportSession(sessionId)) text += line;
  return text;
}

const open = (storage: ChunkStorage) => new CheckpointManager({ storage });

/** Everything that begins a session. */
const BEGINNINGS: Readonly<Record<string, (storage: ChunkStorage) => Promise<unknown>>> = {
  session: (storage) => open(storage).session('chat', { initial: { n: 0 } }),
  'a lease': async (storage) => (await open(storage).session('chat')).lease(),
  save: (storage) => open(storage).save({ n: 0 }, { sessionId: 'chat' }),
  'save of an object': (storage) => open(storage).save({ n: 0 }),
  'a group': (storage) => new Workers(open(storage)).saveGroup([{ name: 'a', agent: { n: 0 } }], { groupId: 'chat' }),
  import: async (storage) => {
    const lines = await exported('chat');
    return open(storage).importSession(Readable.from([lines]));
  },
  'LangGraph put': (storage) => putValues(new SavestateSaver(storage), ROOT, { messages: [new HumanMessage('hi')] }),
  'LangGraph putWrites': (storage) =>
    new SavestateSaver(storage).putWrites(threadConfig('thread', checkpointOf({}).id), [['n', 1]], 'task'),
  'LangGraph store': (storage) => new SavestateStore(storage).put(['a'], 'k', { n: 1 }),
  'Claude transcript': (storage) =>
    new SavestateSessionStore(storage).append({ projectKey: 'p', sessionId: 's' }, [{ type: 'user', uuid: '1' }]),
  'OpenAI session': (storage) =>
    new SavestateSession(storage, 'chat').addItems([{ type: 'message', role: 'user', content: 'hi' }]),
};

const everything = async (storage: ChunkStorage) => [
  await storage.listSessions({ limit: 99 }),
  await storage.readRefs(),
  (await storage.stats()).chunks,
];

test.each(Object.entries(BEGINNINGS))(
  '[encryption.3] without keys nothing is begun beside what is encrypted: %s',
  async (_, begin) => {
    const below = new InMemoryCheckpointStorage();
    const owner = open(encrypted(below, { keys: Keyring.create() }));
    await owner.save({ n: 1 }, { sessionId: 'chat' });
    const before = await everything(below);
    await expect(begin(below)).rejects.toMatchObject(REFUSED);
    expect(await everything(below)).toEqual(before);
    await begin(new InMemoryCheckpointStorage());
  },
);

test.each(STORAGES)(
  '[encryption.3] a manager without keys that was open before the first encrypted save is refused, too: %s',
  async (_, create) => {
    const { storage: below } = create();
    const early = open(below);
    await expect(early.session('chat')).resolves.toMatchObject({ state: undefined });
    await open(encrypted(below, { keys: Keyring.create() })).save({ n: 1 }, { sessionId: 'chat' });
    await expect(early.save({ n: 0 }, { sessionId: 'other' })).rejects.toMatchObject(REFUSED);
    await below.close();
  },
);

/** What would find nothing, because names are hidden. */
const LOOKS: Readonly<Record<string, (manager: CheckpointManager) => Promise<unknown>>> = {
  clearUserHistory: (manager) => manager.clearUserHistory('ann'),
  forgetUser: (manager) => manager.forgetUser('ann', { dryRun: true }),
  deleteSession: (manager) => manager.deleteSession('chat'),
  listByUser: (manager) => manager.listByUser('ann'),
  latest: (manager) => manager.latest({ userId: 'ann' }),
  list: (manager) => manager.list({ userId: 'ann' }),
};

test.each(Object.entries(LOOKS))(
  '[encryption.3] without keys nobody is told that nothing is there: %s',
  async (_, look) => {
    const below = new InMemoryCheckpointStorage();
    await open(encrypted(below, { keys: Keyring.create() })).save({ n: 1 }, { sessionId: 'chat', userId: 'ann' });
    await expect(look(open(below))).rejects.toMatchObject(REFUSED);
    await look(open(new InMemoryCheckpointStorage()));
  },
);

test('[encryption.3] a server without keys begins nothing, and says why', async () => {
  const below = new InMemoryCheckpointStorage();
  await open(encrypted(below, { keys: Keyring.create() })).save({ n: 1 }, { sessionId: 'chat' });
  const { client } = await startServer({ storage: below });
  await expect(client.request('POST /v1/import', { body: await exported('chat') })).rejects.toMatchObject({
    code: 'KEY',
  });
  expect(await below.listSessions({ limit: 9 })).toHaveLength(1);
});

test('[encryption.3] no session in the clear has a sealed name, which would lock a plain storage', async () => {
  const name = 'sealed.0123abcd.Zm9v';
  const manager = open(new InMemoryCheckpointStorage());
  await expect(manager.session(name)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
