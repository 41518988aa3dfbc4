import { interleave, ratioOf } from '../measure.mjs';
import { openManager } from '../workbench.mjs';

export const row7 = { id: 'row7', title: 'fork at 100,000 checkpoints ÷ fork at 10, process-safe', run };

const MANY = 100_000;
const FEW = 10;

async function run(workbench) {
  const many = openManager(workbench.newPath(), { durability: 'process' });
  const few = openManager(workbench.newPath(), { durability: 'process' });
  const count = workbench.isQuick ? MANY / 10 : MANY;
  const heads = {
    many: await build(many, 'history', count),
    few: await build(few, 'history', FEW),
    beside: await build(many, 'beside', FEW),
  };
  const fork = (manager, head) => ({ run: (_, round) => manager.fork(head, { branch: `try-${round}` }) });
  const sides = await interleave(
    { 'at many': fork(many, heads.many), 'at 10': fork(few, heads.few), 'at 10, same file': fork(many, heads.beside) },
    { rounds: workbench.rounds(300), warmup: 30 },
  );
  await many.close();
  await few.close();
  const { 'at many': atMany, 'at 10': atFew, 'at 10, same file': beside } = sides;
  const label = `fork at ${count.toLocaleString('en')} ÷ at 10`;
  workbench.report.line({
    what: label,
    ...ratioOf(atMany, atFew),
    target: { atMost: 1.1 },
    sides: { [`at ${count}`]: atMany, 'at 10': atFew },
  });
  workbench.report.line({
    what: `${label} in the same file`,
    ...ratioOf(atMany, beside),
    sides: { 'at 10, same file': beside },
  });
}

/** Small states: only the number of checkpoints matters here. Answers the last id. */
async function build(manager, sessionId, count) {
  const session = await manager.session(sessionId);
  let id;
  for (let turn = 1; turn <= count; turn++) id = await session.save({ turn });
  return id;
}
