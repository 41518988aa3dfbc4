import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Reads process ids until its input closes, which also happens when the writer is killed; then ends the last one told and
 * removes the folder. The waits are bounded: where nobody reaps orphans, a dead process looks alive for ever.
 */
const WATCHDOG = `
pid=''
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
  kill -QUIT "$pid"
  tries=0
  while kill -0 "$pid" && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
  kill -KILL "$pid"
fi
rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }
`;

/** A temporary folder, readable by every account, that is gone when this process ends, even by SIGKILL. */
export class GuardedFolder {
  readonly path: string;
  readonly #watchdog: ChildProcess;

  private constructor(path: string) {
    this.path = path;
    this.#watchdog = spawn('sh', ['-c', WATCHDOG, path], {
      detached: true,
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.#watchdog.unref();
    this.#watchdog.stdin?.on('error', () => undefined); // it may have been killed: then nobody is told
    if (this.#watchdog.stdin instanceof Socket) this.#watchdog.stdin.unref();
  }

  static create(parent = tmpdir()): GuardedFolder {
    const path = mkdtempSync(join(parent, 'savestate-pg-'));
    chmodSync(path, 0o755);
    return new GuardedFolder(path);
  }

  /** Names the one process that has to end before the folder goes; `undefined` when it has ended. */
  watch(pid: number | undefined): void {
    this.#watchdog.stdin?.write(`${pid ?? ''}\n`);
  }

  /** Removes the folder now. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 });
    this.#watchdog.stdin?.end();
  }
}
