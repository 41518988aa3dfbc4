import { collectYoungGarbage, interleave, ratioOf } from '../measure.mjs';
import { createMessages } from '../messages.mjs';
import { edited, openManager } from '../workbench.mjs';

export const documents = {
  id: 'documents',
  title: 'one small change in an object of 10,000 documents ÷ in a list of them, process-safe, draft-made states',
  run,
};

const COUNT = 10_000;
const STEP = 37;

async function run(workbench) {
  const manager = openManager(workbench.newPath(), { durability: 'process' });
  const list = createMessages(COUNT, 12);
  const object = Object.fromEntries(list.map((document) => [document.id, document]));
  const states = { object: edited({ documents: object }, () => undefined), list: { documents: list } };
  const sides = {};
  for (const [name, start] of Object.entries(states)) sides[name] = await open(manager, name, start);
  // What any walk must do to see a change: an object that was copied has to be asked for its keys.
  const reading = { prepare: collectYoungGarbage, run: () => void Object.keys(object).map((key) => object[key]) };
  const found = await interleave({ ...sides, 'keys and values read': reading }, { rounds: workbench.rounds(60) });
  await manager.close();
  workbench.report.line({
    what: 'save, object ÷ list',
    ...ratioOf(found.object, found.list),
    target: { atMost: 2 },
    sides: found,
  });
}

async function open(manager, name, start) {
  const session = await manager.session(name);
  const keys = Object.keys(start.documents);
  let state = edited(start, () => undefined);
  await session.save(state);
  const prepare = (round) => {
    state = edited(state, (draft) => {
      draft.documents[keys[(round * STEP) % COUNT]].role = `changed ${round}`;
    });
    collectYoungGarbage();
    return state;
  };
  return { prepare, run: (next) => session.save(next) };
}
