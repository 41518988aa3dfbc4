// Appends items to a transcript of each adapter, each under an id of its own, and says each after it was acknowledged, until it is killed.
// It begins by repeating the last one that is there: its reply may have been lost with the process before.
import { chatStore } from '../../../dist/adapter/ai-sdk/index.js';
import { SavestateSessionStore } from '../../../dist/adapter/claude/index.js';
import { SavestateSession } from '../../../dist/adapter/openai-agents/index.js';
import { CheckpointManager } from '../../../dist/index.js';
import { openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: place, writer } = told();
const storage = await openAnyStorage(place);
const text = (id) => `${id} says `.repeat(90);

async function append(adapter, { ids, add }) {
  const own = (await ids()).filter((id) => id.startsWith(`${writer}-`));
  for (let n = Math.max(0, own.length - 1); ; n++) {
    await add(`${writer}-${n}`);
    say({ [adapter]: n });
  }
}

const key = { projectKey: 'shop', sessionId: 'one' };
const store = new SavestateSessionStore(storage);
const claude = {
  ids: async () => ((await store.load(key)) ?? []).map(({ uuid }) => uuid),
  add: (id) => store.append(key, [{ type: 'user', uuid: id, message: { content: text(id) } }]),
};
const session = new SavestateSession(storage, 'one');
const openai = {
  ids: async () => (await session.getItems()).map(({ id }) => id),
  add: (id) => {
    const items = [{ type: 'message', role: 'user', id, content: text(id) }];
    return session.applyHistoryTransaction({ operationId: id, transaction: { type: 'append_items', items } });
  },
};
const chats = chatStore(storage);
const manager = new CheckpointManager({ storage });
const chat = {
  ids: async () => {
    const head = await manager.latest({ sessionId: 'ai-sdk/one' });
    return head === undefined ? [] : (await manager.load(head.id)).items.map(({ id }) => id);
  },
  add: (id) => chats.save('one', [{ id, role: 'user', parts: [{ type: 'text', text: text(id) }] }]),
};
await Promise.all([append('claude', claude), append('openai', openai), append('chat', chat)]);
