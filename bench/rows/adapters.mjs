import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { InMemorySessionStore } from '@anthropic-ai/claude-agent-sdk';
import { MemorySession } from '@openai/agents-core';
import { chatStore } from '../../dist/adapter/ai-sdk/index.js';
import { SavestateSessionStore } from '../../dist/adapter/claude/index.js';
import { SavestateSession } from '../../dist/adapter/openai-agents/index.js';
import { SqliteCheckpointStorage } from '../../dist/index.js';
import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { createMessages } from '../messages.mjs';
import { LONG } from '../workbench.mjs';

export const adapters = { id: 'adapters', title: 'append to a transcript at item 5,000 ÷ at item 100', run };

const SHORT = 100;
const ROUNDS = 100;
/** Short transcripts are replaced before they leave the neighbourhood of 100 items. */
const APPENDS = 25;

/** Each adapter as: how to open a transcript of its own in a storage, and add items to it; and what people have without it. */
const ADAPTERS = [
  {
    name: 'claude',
    open: (storage, name) => {
      const store = new SavestateSessionStore(storage);
      return (items) => store.append({ projectKey: 'bench', sessionId: name }, items);
    },
    without: {
      'in memory': (_, name) => {
        const store = new InMemorySessionStore();
        return (items) => store.append({ projectKey: 'bench', sessionId: name }, items);
      },
      'a file of lines': (folder, name) => {
        const path = join(folder, `${name}.jsonl`);
        return (items) => appendFileSync(path, items.map((item) => `${JSON.stringify(item)}\n`).join(''));
      },
    },
    item: ({ content }, id) => ({
      type: 'user',
      uuid: `${id}`,
      parentUuid: `${id}-`,
      message: { role: 'user', content },
    }),
  },
  {
    name: 'openai-agents',
    open: (storage, name) => {
      const session = new SavestateSession(storage, name);
      return (items) => session.addItems(items);
    },
    without: {
      'in memory': () => {
        const session = new MemorySession();
        return (items) => session.addItems(items);
      },
      'a JSON file, written whole': wholeFile,
    },
    item: ({ content }) => ({ type: 'message', role: 'user', content }),
  },
  {
    name: 'ai-sdk chats',
    open: (storage, name) => {
      const chats = chatStore(storage);
      return (messages) => chats.save(name, messages);
    },
    without: { 'a JSON file, written whole': wholeFile },
    item: ({ content }, id) => ({ id, role: 'user', parts: [{ type: 'text', text: content }] }),
  },
];

/** What the guides of the SDKs show: all items, each time. */
function wholeFile(folder, name) {
  const all = [];
  return (items) => {
    all.push(...items);
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(all));
  };
}

async function run(workbench) {
  for (const adapter of ADAPTERS) {
    await measure(workbench, adapter, { label: 'savestate', target: { atMost: 1.3 }, open: adapter.open });
    for (const [label, open] of Object.entries(adapter.without)) await measure(workbench, adapter, { label, open });
  }
}

async function measure(workbench, { name, item }, { label, target, open }) {
  const rounds = workbench.rounds(ROUNDS);
  const storage = new SqliteCheckpointStorage({ path: workbench.newPath() });
  const probe = createFsyncProbe(workbench.folder);
  const place = label === 'savestate' ? storage : workbench.folder;
  const grow = async (id, length, seed) => {
    const messages = createMessages(length + rounds + 20, seed).map((message, at) => item(message, `${id}-${at}`));
    const add = open(place, id);
    await add(messages.slice(0, length));
    let next = length;
    return { run: () => add([messages[next++]]) };
  };
  const long = await grow(`${name}-${label}-long`, LONG, 1);
  const shorts = [];
  for (let at = 0; at * APPENDS < rounds + 20; at++) shorts.push(await grow(`${name}-${label}-${at}`, SHORT, 2 + at));
  const short = { run: (_, round) => shorts[Math.floor(round / APPENDS)].run() };
  const sides = await interleave({ 'at 5,000': long, 'at 100': short, 'fsync probe': probe }, { rounds, warmup: 10 });
  probe.close();
  await storage.close();
  workbench.report.line({
    what: `${name}: append at 5,000 ÷ at 100, ${label}`,
    ...ratioOf(sides['at 5,000'], sides['at 100']),
    ...(target !== undefined && { target }),
    sides,
  });
}
