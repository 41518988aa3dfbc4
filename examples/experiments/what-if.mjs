// Does another first message repair a run that failed, or was it luck?
//   node examples/experiments/what-if.mjs [repeats]
// The model is scripted: it gets a vague question right one time in four, and a clear one nine times in ten.
import { CheckpointManager, InMemoryCheckpointStorage } from 'savestate';
import { AgentRegistry, CheckpointingGroupChatManager, GroupChat, StandardAgent } from 'savestate/agents';
import { trial } from 'savestate/repair';
import { scriptedModel } from 'savestate/testing';

const REPEATS = Number(process.argv[2] ?? 20);

/** Numbers from 0 to 1 that are the same in every run of this program. */
function seeded(seed) {
  let at = seed;
  return () => {
    at = (at * 48_271) % 2_147_483_647;
    return at / 2_147_483_647;
  };
}

const random = seeded(20_261);
const model = scriptedModel(({ messages }) => {
  const isClear = JSON.stringify(messages).includes('in kilometres');
  return random() < (isClear ? 0.9 : 0.25) ? 'It is 42.2 km.' : 'It is 26.2.';
});
const registry = new AgentRegistry({ models: { [model.id]: model } });
const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
const agents = ['runner', 'coach'].map(
  (name) => new StandardAgent({ name, systemMessage: `You are a ${name}.`, model }),
);
const chat = new GroupChat({ agents, registry, speakerSelection: 'round_robin', maxRounds: 2 });
const failed = await new CheckpointingGroupChatManager({ chat, manager, sessionId: 'marathon', logs: false }).run({
  message: 'How long is a marathon?',
});
const judge = ({ messages }) => messages.at(-1)?.content.includes('42.2') === true;
console.log(`original: ${failed.messages.at(-1)?.content}`);

const CHANGES = {
  'the unit is asked for': 'How long is a marathon in kilometres?',
  'only other words': 'What is the length of a marathon?',
};
console.log('change | right with it | right without it | p | conclusion');
for (const [name, replacement] of Object.entries(CHANGES)) {
  const report = await trial({ manager, registry }, failed.checkpointId ?? '', {
    intervention: { message: 1, replacement },
    repeats: REPEATS,
    rounds: 1,
    judge,
  });
  const { edited, control, chance, conclusion } = report;
  const cell = ({ successes, failures }) => `${successes} of ${successes + failures}`;
  console.log([name, cell(edited), cell(control), chance?.pValue.toPrecision(2), conclusion].join(' | '));
}
const branches = await manager.branches('marathon');
console.log(`${branches.length} branches; the original still ends with: ${failed.messages.at(-1)?.content}`);
await manager.close();
