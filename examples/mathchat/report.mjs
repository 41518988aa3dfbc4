// What the two programs share: where they keep things, and what they print.
import { existsSync, mkdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const CONTINUE = relative('', fileURLToPath(new URL('continue.mjs', import.meta.url)));

/** Where both programs keep their checkpoints and files, unless --logs names a folder. */
export const DEFAULT_LOGS = 'logs';

export function openCheckpoints(logs) {
  if (!existsSync(logs)) mkdirSync(logs);
  return new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(logs, 'checkpoints.db') }) });
}

export function showMessage({ name, content }) {
  console.log(`\n${name}:\n${content.replaceAll(/^/gm, '  ')}`);
}

/** Says how a run stopped, and what to do next; answers the exit code. */
export function showResult(result, logs) {
  const { totals, newMessages } = result;
  console.log(`\n${describeEnd(result)}`);
  console.log(
    `${newMessages} messages, ${totals.modelCalls} model calls, ${totals.toolCalls} tool calls, ${totals.codeRuns} programs.`,
  );
  showFiles(result);
  const flags = `${logs === DEFAULT_LOGS ? '' : ` --logs ${logs}`}${result.end?.signal ? ' --strip-signal' : ''}`;
  console.log(`Go on:  node ${CONTINUE} ${result.checkpointId} --rounds 5${flags}`);
  return result.status === 'ended' ? 0 : 1;
}

function describeEnd({ status, end, error, request }) {
  if (status === 'ended') return `Ended: ${end.detail}`;
  if (status === 'failed') return `Failed: ${error.message}`;
  return status === 'waiting' ? `Waiting: ${request.prompt}` : 'Stopped.';
}

function showFiles({ folder, fileProblems }) {
  if (folder !== undefined) console.log(`Files:  ${folder}`);
  for (const { message } of fileProblems) console.log(`Files:  not written: ${message}`);
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
