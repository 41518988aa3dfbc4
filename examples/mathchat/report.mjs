// What the two programs print.
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const CONTINUE = relative('', fileURLToPath(new URL('continue.mjs', import.meta.url)));

/** Where both programs keep their checkpoints and files, unless --logs names a folder. */
export const DEFAULT_LOGS = join(tmpdir(), 'savestate-mathchat');

export function openCheckpoints(logs) {
  return new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(logs, 'checkpoints.db') }) });
}

export function showMessage({ name, content }) {
  console.log(`\n${name}:\n${content.replaceAll(/^/gm, '  ')}`);
}

/** Says how a run stopped, and what to do next; answers the exit code. */
export function showResult(result, logs) {
  console.log();
  if (result.status === 'ended') console.log(`Ended: ${result.end.detail}`);
  if (result.status === 'failed') console.log(`Failed: ${result.error.message}`);
  if (result.status === 'stopped') console.log('Stopped.');
  if (result.status === 'waiting') console.log(`Waiting: ${result.request.prompt}`);
  const { totals, folder, newMessages, checkpointId } = result;
  console.log(
    `${newMessages} messages, ${totals.modelCalls} model calls, ${totals.toolCalls} tool calls, ${totals.codeRuns} programs.`,
  );
  if (folder !== undefined) console.log(`Files:  ${folder}`);
  console.log(
    `Go on:  node ${CONTINUE} ${checkpointId} --rounds 5${logs === DEFAULT_LOGS ? '' : ` --logs ${logs}`}${result.end?.signal ? ' --strip-signal' : ''}`,
  );
  return result.status === 'ended' ? 0 : 1;
}

/** Ctrl-C ends the run at its last checkpoint; a second one ends the program. */
export function stopOnInterrupt() {
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  return stop.signal;
}

/** An error in words, without a stack, and the exit code for it. */
export function fail(error) {
  console.error(`Error: ${error.message}`);
  process.exitCode = 2;
}
