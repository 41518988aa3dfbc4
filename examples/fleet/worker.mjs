// One process that works on the research: `node worker.mjs <folder> run|resume [killAt] [prompt]`, or `answer <request> <answer> <by> [value]`.
import { join } from 'node:path';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { FleetRunner } from 'savestate/fleet';
import { createFleet, TASK } from './team.mjs';

const [folder, command, ...args] = process.argv.slice(2);
const [killAt = '', prompt] = args;

const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'fleet.db') }) });
const fleet = createFleet({
  folder,
  outside: ({ tool, input, attempt }) => {
    console.log(`  ${tool} ${JSON.stringify(input)}${attempt === 1 ? '' : ` (attempt ${attempt})`}`);
    if (command !== 'answer' && killAt !== '' && JSON.stringify(input).includes(killAt))
      process.kill(process.pid, 'SIGKILL');
  },
});
const runner = new FleetRunner({
  fleet,
  manager,
  sessionId: 'research',
  onProgressLedger: ({ next_speaker, instruction_or_question }) =>
    console.log(`round ${fleet.record.rounds}: ${next_speaker.answer}, ${instruction_or_question.answer}`),
});

async function answer([requestId, said, by, value]) {
  await runner.answer({ requestId, answer: said, by, ...(value !== undefined && { value }) });
  console.log(`${by} says ${said} to ${requestId}`);
}

async function work() {
  const result = await (command === 'run'
    ? runner.run({ task: TASK })
    : runner.resume(prompt === undefined ? {} : { prompt }));
  if (result.status === 'waiting') console.log(`waits (${result.request.id}): ${result.request.message}`);
  if (result.status === 'ended')
    console.log(`${result.end.reason} after ${result.rounds} rounds and ${result.resets} resets: ${result.end.answer}`);
}

try {
  await (command === 'answer' ? answer(args) : work());
} catch (error) {
  console.log(`${error.code}: ${error.message.replace(/, at .*/, '.')}`);
} finally {
  await manager.close();
}
