// Lets the research fleet of the examples work, and dies at the moment it was told.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { FleetRunner } from '../../../dist/runtime/fleet/index.js';
import { createFleet, TASK } from '../../../examples/fleet/team.mjs';
import { die, openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage, side, folder, stop } = told();

/** Dies when this has happened so often in this process. */
const counts = {};
function passing(moment) {
  counts[moment] = (counts[moment] ?? 0) + 1;
  if (stop?.moment === moment && stop.count === counts[moment]) die();
}

function affectTheOutside({ tool, input, key }) {
  passing('before a tool');
  const file = openSync(side, 'a');
  writeSync(file, `${JSON.stringify({ call: { tool, input }, key })}\n`);
  fsyncSync(file);
  closeSync(file);
  passing('inside a tool');
}

const manager = openManager(openStorage(storage));
const fleet = createFleet({ folder, outside: affectTheOutside, thinking: () => passing('inside the model') });
const runner = new FleetRunner({
  fleet,
  manager,
  sessionId: 'research',
  onCheckpoint: ({ trigger }) => passing(trigger),
  ask: async ({ id }) => {
    passing('inside a question');
    return id === 'plan-2' ? { answer: 'revise', by: 'Ann', value: 'As before.' } : { answer: 'approve', by: 'Ann' };
  },
});
const isBegun = (await manager.latest({ sessionId: 'research' })) !== undefined;
const result = isBegun ? await runner.resume() : await runner.run({ task: TASK });
const { checkpoints: all } = await manager.list({ sessionId: 'research', branch: 'main' }, { limit: 1000 });
const { findings } = await manager.verify();
await manager.close();
const { status, end, messages, totals, rounds, resets, taskLedger, progressLedger } = result;
const triggers = all.map(({ trigger }) => trigger);
say({ finished: { status, end, messages, totals, rounds, resets, taskLedger, progressLedger, triggers, findings } });
