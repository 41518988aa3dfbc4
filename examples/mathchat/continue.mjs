// Continues a conversation from any of its checkpoints, as a new branch.
//   node examples/mathchat/continue.mjs <checkpoint id or file> [--rounds 5] [--output-root folder] [--strip-signal] [--logs folder]
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CheckpointRestorer } from 'savestate/agents';
import { DEFAULT_LOGS, fail, openCheckpoints, showMessage, showResult, stopOnInterrupt } from './report.mjs';
import { createRegistry } from './team.mjs';

const USAGE =
  'Usage: continue.mjs <checkpoint id or file> [--rounds N] [--output-root FOLDER] [--strip-signal] [--logs FOLDER]';

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', short: 'r', default: '5' },
      'output-root': { type: 'string' },
      'strip-signal': { type: 'boolean', default: false },
      logs: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return undefined;
  const [source, ...others] = positionals;
  if (source === undefined || others.length > 0) throw new Error(USAGE);
  const outputRoot = values['output-root'];
  const logs = values.logs ?? logsOf(source);
  return {
    source: existsSync(source) ? { file: source } : source,
    logs,
    run: {
      rounds: Number(values.rounds),
      stripSignal: values['strip-signal'],
      logs,
      ...(outputRoot !== undefined && { outputRoot }),
    },
  };
}

/** The folder that a checkpoint file's session is in; the usual one for an id. */
function logsOf(source) {
  return /^(.+?)[\\/]session_\d+_\d+[^\\/]*[\\/]/.exec(source)?.[1] ?? DEFAULT_LOGS;
}

async function main() {
  const options = readOptions();
  if (options === undefined) {
    console.log(USAGE);
    return;
  }
  const manager = openCheckpoints(options.logs);
  try {
    const restorer = new CheckpointRestorer({ manager, registry: createRegistry(process.env, options.logs) });
    const { chat, checkpoint } = await restorer.restore(options.source);
    console.log(`From ${checkpoint.id} (${checkpoint.trigger}), after ${chat.messages.length} messages.`);
    const result = await restorer.continue(options.source, {
      ...options.run,
      signal: stopOnInterrupt(),
      onMessage: showMessage,
    });
    if (result.newMessages === 0 && result.status === 'ended')
      console.log('\nThe conversation had ended. Use --strip-signal to go on all the same.');
    process.exitCode = showResult(result, options.logs);
  } finally {
    await manager.close();
  }
}

await main().catch(fail);
