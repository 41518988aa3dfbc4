import { CheckpointManager, InMemoryCheckpointStorage } from '../../dist/index.js';
import { collectYoungGarbage, interleave, ratioOf } from '../measure.mjs';
import { createMessage, createMessages, createState, jsonBytes } from '../messages.mjs';
import { formatBytes } from '../report.mjs';
import { openManager } from '../workbench.mjs';

export const row6 = {
  id: 'row6',
  title: 'compare two checkpoints of a 10 MB state, 1 % of its messages changed ÷ JSON.stringify of that state',
  run,
};

const STATE_BYTES = 10_000_000;
const BYTES_A_MESSAGE = (4 * 600 + 4096) / 5;

async function run(workbench) {
  const before = createState(createMessages(Math.ceil(STATE_BYTES / BYTES_A_MESSAGE), 6));
  const { after, changed } = changeOnePercent(before);
  const stringify = { prepare: collectYoungGarbage, run: () => void JSON.stringify(after) };
  const path = workbench.newPath();
  const managers = {
    SQLite: openManager(path, { durability: 'process' }),
    memory: new CheckpointManager({ storage: new InMemoryCheckpointStorage() }),
  };
  for (const [name, manager] of Object.entries(managers)) {
    const ids = [await manager.save(before, { sessionId: 'big' }), await manager.save(after, { sessionId: 'big' })];
    const compare = { prepare: collectYoungGarbage, run: async () => check(await manager.compare(...ids), changed) };
    const sides = await interleave(
      { compare, 'JSON.stringify': stringify },
      { rounds: workbench.rounds(30), warmup: 3 },
    );
    workbench.report.line({
      what: `compare ÷ JSON.stringify, ${name}`,
      ...ratioOf(sides.compare, sides['JSON.stringify']),
      ...(name === 'SQLite' && { target: { atMost: 0.2 } }),
      sides,
      figures: [`${formatBytes(jsonBytes(after))}, ${changed} messages changed`],
    });
    await manager.close();
  }
}

/** Every changed message gets another one's words in place of its second half. */
function changeOnePercent(state) {
  const messages = [...state.messages];
  const places = new Set();
  for (let at = 1; places.size < messages.length / 100; at++) places.add((at * 2_654_435_761) % messages.length);
  for (const place of places) {
    const { content } = messages[place];
    const half = content.length >> 1;
    const other = createMessage(place, 66).content.slice(half);
    messages[place] = { ...messages[place], content: Buffer.from(content.slice(0, half) + other).toString() };
  }
  return { after: { ...state, messages }, changed: places.size };
}

function check({ modified }, changed) {
  if (modified.length !== changed) throw new Error(`compare found ${modified.length} changes instead of ${changed}.`);
}
