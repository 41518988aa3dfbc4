// Holds a conversation of a solver with a tool and a critic, and dies at the moment it was told.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { z } from 'zod';
import {
  AgentRegistry,
  CheckpointingGroupChatManager,
  defineTool,
  GroupChat,
  StandardAgent,
} from '../../../dist/runtime/index.js';
import { scriptedModel } from '../../../dist/testing/index.js';
import { die, openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage, side, rounds, stop } = told();

/** Dies when this has happened so often in this process. */
const counts = {};
function passing(moment) {
  counts[moment] = (counts[moment] ?? 0) + 1;
  if (stop?.moment === moment && stop.count === counts[moment]) die();
}

function affectTheOutside(line) {
  const file = openSync(side, 'a');
  writeSync(file, `${JSON.stringify(line)}\n`);
  fsyncSync(file);
  closeSync(file);
}

const square = defineTool({
  name: 'square',
  description: 'Squares a number.',
  input: z.object({ n: z.number() }),
  run: ({ n }, { idempotencyKey, attempt }) => {
    passing('before the tool');
    affectTheOutside({ n, key: idempotencyKey, attempt });
    passing('inside the tool');
    return n * n;
  },
});

/** Depends on the request alone, so that it is the same in every process. */
const model = scriptedModel(
  ({ system = '', messages }) => {
    passing('inside the model');
    const last = messages.at(-1);
    if (last?.role === 'tool') return `The square is ${JSON.stringify(last.content).match(/"value":"(\d+)"/)[1]}.`;
    if (system.startsWith('You solve'))
      return { toolCalls: [{ id: `call_${messages.length}`, name: 'square', input: { n: messages.length } }] };
    return `I have seen ${messages.length} messages.`;
  },
  { id: 'team' },
);

const chat = new GroupChat({
  agents: [
    new StandardAgent({ name: 'solver', systemMessage: 'You solve problems.', model, tools: [square] }),
    new StandardAgent({ name: 'critic', systemMessage: 'You check solutions.', model }),
    new StandardAgent({ name: 'clerk', systemMessage: 'You keep the minutes.', model }),
  ],
  registry: new AgentRegistry({ tools: [square] }),
  speakerSelection: 'random',
  sendIntroductions: true,
  maxRounds: rounds,
});

const manager = openManager(openStorage(storage));
const team = new CheckpointingGroupChatManager({
  chat,
  manager,
  sessionId: 'team',
  logs: false,
  onCheckpoint: ({ trigger }) => passing(trigger),
});
const isBegun = (await manager.latest({ sessionId: 'team' })) !== undefined;
const result = isBegun ? await team.resume() : await team.run({ message: 'Square the number of messages.' });
const { status, end, messages, totals } = result;
const { checkpoints: all } = await manager.list({ sessionId: 'team' }, { limit: 1000 });
await manager.close();
say({ finished: { status, end, messages, totals, triggers: all.map(({ trigger }) => trigger) } });
