// A team solves a problem of mathematics; every message is a checkpoint.
//   node examples/mathchat/mathchat.mjs [--rounds 8] [--session-name demo] [--problem-file task.txt] [--logs folder]
// Without a key it runs offline. Interrupt it, and run it again with the same --session-name: it goes on.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CheckpointingGroupChatManager } from 'savestate/agents';
import { DEFAULT_PROBLEM } from './offline-model.mjs';
import { DEFAULT_LOGS, fail, openCheckpoints, showMessage, showResult, stopOnInterrupt } from './report.mjs';
import { createTeam } from './team.mjs';

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string' },
      'session-name': { type: 'string' },
      'problem-file': { type: 'string' },
      logs: { type: 'string', default: DEFAULT_LOGS },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return undefined;
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  if (rounds !== undefined && (!Number.isSafeInteger(rounds) || rounds < 1))
    throw new Error(`--rounds must be a whole number from 1; found "${values.rounds}".`);
  const sessionId = values['session-name'] ?? `mathchat-${Date.now()}`;
  return { rounds, file: values['problem-file'], sessionId, logs: values.logs };
}

function readProblem(file) {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new Error(`--problem-file ${file} cannot be read: ${error.message}`);
  }
}

/** A session keeps the problem it began with: another one would be ignored. */
async function refuseOther({ id, sessionId }, { manager, file, problem }) {
  const { chat } = await manager.load(id);
  const known = chat.problem;
  if (file === undefined || problem === known) return;
  throw new Error(
    `Session ${sessionId} has another problem than ${file}: ${JSON.stringify(known.slice(0, 80))}. Leave out --problem-file to go on with it, or name another session with --session-name.`,
  );
}

async function main() {
  const options = readOptions();
  if (options === undefined) {
    console.log('Usage: mathchat.mjs [--rounds N] [--session-name NAME] [--problem-file FILE] [--logs FOLDER]');
    return;
  }
  const { rounds, file, sessionId, logs } = options;
  const problem = file === undefined ? DEFAULT_PROBLEM : readProblem(file);
  const manager = openCheckpoints(logs);
  const chat = createTeam({ env: process.env, folder: logs });
  const team = new CheckpointingGroupChatManager({
    chat,
    manager,
    sessionId,
    logs,
    signal: stopOnInterrupt(),
    onMessage: showMessage,
  });
  try {
    const begun = await manager.latest({ sessionId });
    if (begun !== undefined) await refuseOther(begun, { manager, file, problem });
    console.log(begun === undefined ? `Session ${sessionId}.` : `Going on with session ${sessionId}.`);
    const result = begun === undefined ? await team.run({ message: problem, rounds }) : await team.resume({ rounds });
    process.exitCode = showResult(result, logs);
  } finally {
    await manager.close();
  }
}

await main().catch(fail);
