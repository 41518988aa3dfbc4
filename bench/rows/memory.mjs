import { importSource } from '../../scripts/import-source.mjs';
import { collectAllGarbage } from '../measure.mjs';
import { createMessages, createState, jsonBytes } from '../messages.mjs';
import { formatBytes } from '../report.mjs';
import { LONG, longState, openManager } from '../workbench.mjs';

export const memory = { id: 'memory', title: 'memory of an open 5,000-message session, without the state itself', run };

const { ShadowBudget } = await importSource('manager/engine/engine.ts');

/** The manager's default. */
const BUDGET_BYTES = 256 * 1024 * 1024;

async function run(workbench) {
  await measure(workbench, { name: 'draft-made state', makeState: () => longState(LONG, 2) });
  await measure(workbench, { name: 'plain mutable state', makeState: () => createState(createMessages(LONG, 2)) });
  await measure(workbench, { name: 'resumed (its state included)', path: await workbench.copyOfDatabase() });
}

async function measure(workbench, { name, makeState, path = workbench.newPath() }) {
  const atFirst = heapBytes();
  const state = makeState?.();
  const withState = heapBytes();
  const manager = openManager(path, { durability: 'process' });
  const session = await manager.session('long');
  if (state !== undefined) await session.save(state);
  const withSession = heapBytes();
  const stateJsonBytes = jsonBytes(session.state);
  const { stateBytes } = session.head;
  await manager.close();
  const bytes = withSession - withState;
  workbench.report.line({
    what: `heap of the session ÷ JSON of the state: ${name}`,
    ratio: bytes / stateJsonBytes,
    figures: [
      `session ${formatBytes(bytes)}`,
      `state ${formatBytes(withState - atFirst)}`,
      `JSON ${formatBytes(stateJsonBytes)}`,
      `${((100 * bytes) / BUDGET_BYTES).toFixed(1)} % of the default shadow budget, which counts it as ${formatBytes(countedBytes(stateBytes))}`,
    ],
  });
}

function heapBytes() {
  collectAllGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** What the manager's budget books for a session with a state of this size. */
function countedBytes(stateBytes) {
  const budget = new ShadowBudget(Number.POSITIVE_INFINITY);
  budget.touch({ forgetShadow: () => undefined }, stateBytes);
  return budget.totalBytes;
}
