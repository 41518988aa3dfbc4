// Appends items to a transcript of an adapter, each under an id of its own, and says each after it was acknowledged, until it is killed.
// It begins by repeating the last one that is there: its reply may have been lost with the process before.
import { SavestateSessionStore } from '../../../dist/adapter/claude/index.js';
import { SavestateSession } from '../../../dist/adapter/openai-agents/index.js';
import { openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: place, adapter, writer } = told();
const storage = await openAnyStorage(place);
const key = { projectKey: 'shop', sessionId: 'one' };

const open = {
  claude: () => {
    const store = new SavestateSessionStore(storage);
    return {
      ids: async () => ((await store.load(key)) ?? []).map(({ uuid }) => uuid),
      add: (id) => store.append(key, [{ type: 'user', uuid: id, message: { content: `${id} says `.repeat(90) } }]),
    };
  },
  openai: () => {
    const session = new SavestateSession(storage, 'one');
    const item = (id) => ({ type: 'message', role: 'user', id, content: `${id} says `.repeat(90) });
    return {
      ids: async () => (await session.getItems()).map(({ id }) => id),
      add: (id) =>
        session.applyHistoryTransaction({
          operationId: id,
          transaction: { type: 'append_items', items: [item(id)] },
        }),
    };
  },
};

const transcript = open[adapter]();
const own = (await transcript.ids()).filter((id) => id.startsWith(`${writer}-`));
say({ open: own.length });
for (let n = Math.max(0, own.length - 1); ; n++) {
  await transcript.add(`${writer}-${n}`);
  say({ stored: n });
}
