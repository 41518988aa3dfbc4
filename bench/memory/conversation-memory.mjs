import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Memory } from '../../dist/memory/index.js';

/**
 * A memory of one conversation, for a retrieval scorer: `add(items)` takes turns `{ id, content, speaker, session, ts }` in the order of
 * time, `search(question, k)` answers ids of turns, best first. Turns are stored as a caller of `Memory` would: the words in the
 * content, the speaker in `name`, one run per session.
 */
export function createConversationMemory({ conversation, embedder }) {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-memory-'));
  const memory = new Memory({ path: join(folder, 'history.db'), embedder });
  const userId = conversation;
  return {
    async add(items) {
      for (const session of new Set(items.map((item) => item.session))) {
        const turns = items.filter((item) => item.session === session).map(toMessage);
        await memory.add(turns, { userId, runId: `${session}`, infer: false });
      }
    },
    async search(question, k) {
      const { results } = await memory.search(question, { userId, topK: k });
      return results.map(({ messageId }) => messageId);
    },
    async close() {
      await memory.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function toMessage({ id, content, speaker, ts }) {
  const prefix = `${speaker}: `;
  const words = content.startsWith(prefix) ? content.slice(prefix.length) : content;
  return { role: 'user', name: speaker, content: words, id, timestamp: new Date(ts) };
}
