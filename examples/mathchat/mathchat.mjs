// A team solves a problem of mathematics; every message is a checkpoint.
//   node examples/mathchat/mathchat.mjs [--rounds 8] [--session-name demo] [--problem-file task.txt] [--logs folder]
// Without a key it runs offline. Interrupt it, and run it again with the same --session-name: it goes on.
import { mkdirSync, readFileSync } from 'node:fs';
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
  const file = values['problem-file'];
  const problem = file === undefined ? DEFAULT_PROBLEM : readFileSync(file, 'utf8').trim();
  const sessionId = values['session-name'] ?? `mathchat-${Date.now()}`;
  return { rounds, problem, sessionId, logs: values.logs };
}

async function main() {
  const options = readOptions();
  if (options === undefined) {
    console.log('Usage: mathchat.mjs [--rounds N] [--session-name NAME] [--problem-file FILE] [--logs FOLDER]');
    return;
  }
  const { rounds, problem, sessionId, logs } = options;
  mkdirSync(logs, { recursive: true });
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
    const isBegun = (await manager.latest({ sessionId })) !== undefined;
    console.log(isBegun ? `Going on with session ${sessionId}.` : `Session ${sessionId}.`);
    const result = isBegun ? await team.resume({ rounds }) : await team.run({ message: problem, rounds });
    process.exitCode = showResult(result, logs);
  } finally {
    await manager.close();
  }
}

await main().catch(fail);
