import { StateCodec } from '../../dist/core/index.js';
import { collectAllGarbage, interleave, ratioOf } from '../measure.mjs';
import { createMessages, createState } from '../messages.mjs';
import { LONG } from '../workbench.mjs';

export const row2 = {
  id: 'row2',
  title: 'plain mutable state: walk over an unchanged 5,000-message state ÷ JSON.stringify',
  run,
};

async function run(workbench) {
  const codec = new StateCodec();
  const state = createState(createMessages(LONG));
  const before = codec.encode(state);
  collectAllGarbage();
  const walk = () => {
    if (codec.encode(state, before).chunks.length > 0) throw new Error('The walk found a change where there is none.');
  };
  const sides = await interleave(
    { walk: { run: walk }, 'JSON.stringify': { run: () => void JSON.stringify(state) } },
    { rounds: workbench.rounds(100), warmup: 20 },
  );
  workbench.report.line({
    what: 'walk ÷ JSON.stringify',
    ...ratioOf(sides.walk, sides['JSON.stringify']),
    target: { atMost: 0.05 },
    sides,
  });
}
