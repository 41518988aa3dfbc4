import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { killMarked, RUN_MARK, sendSignal } from './marked-processes.ts';
import { type CapturedOutput, OutputCapture } from './output-capture.ts';

/** Why a process was stopped before it ended by itself. */
export type StopReason = 'timeout' | 'abort' | 'closed' | 'flood';

/** How a process ended. */
export type ProcessOutcome = {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stopped: StopReason | undefined;
  readonly output: CapturedOutput;
  readonly error: Error | undefined;
};

/** What is run, and its bounds. */
export type ProcessOptions = {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** By which all that it starts is found again. */
  readonly mark: string;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** What is beyond `maxOutputBytes` is read and dropped up to here; then the process is killed. Default 1 GiB. */
  readonly drainBytes?: number;
};

const DRAIN_BYTES = 2 ** 30;

/** How long a process may tidy up after SIGTERM. */
const KILL_GRACE_MS = 500;

/** How long to wait, after all was killed, for the last output, or for a process that does not die. */
const PIPE_GRACE_MS = 500;
const UNKILLABLE_MS = 5000;

/** What must not survive this process. A process that is itself killed cannot see to that; the next executor does. */
const running = new Set<number>();

function killRunning(): void {
  for (const pid of running) sendSignal(-pid, 'SIGKILL');
}

/**
 * One running program with all that it starts: a process group of its own, one pipe for both kinds of output. When the program ends, for
 * whatever reason, everything it left behind is killed.
 */
export class CodeProcess {
  readonly finished: Promise<ProcessOutcome>;
  readonly #options: ProcessOptions;
  readonly #child: ChildProcess;
  readonly #output: OutputCapture;
  readonly #timers: NodeJS.Timeout[] = [];
  #stopped: StopReason | undefined;
  #hasExited = false;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#output = new OutputCapture(options.maxOutputBytes);
    // One pipe for both streams is the only way to keep their order.
    this.#child = spawn('/bin/sh', ['-c', 'exec "$0" "$@" 2>&1', options.program, ...options.args], {
      cwd: options.cwd,
      env: { ...options.env, [RUN_MARK]: options.mark },
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.finished = this.#follow();
  }

  /** Ends it: SIGTERM to the whole group, SIGKILL after the grace. */
  stop(reason: StopReason): void {
    if (this.#stopped !== undefined || this.#hasExited) return;
    this.#stopped = reason;
    if (reason === 'flood') {
      this.#signal('SIGKILL');
      return;
    }
    this.#signal('SIGTERM');
    this.#timers.push(setTimeout(() => this.#signal('SIGKILL'), KILL_GRACE_MS));
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid !== undefined) sendSignal(-pid, signal);
  }

  async #follow(): Promise<ProcessOutcome> {
    const { pid, stdout } = this.#child;
    if (pid !== undefined) {
      if (running.size === 0) process.on('exit', killRunning);
      running.add(pid);
    }
    const drained = stdout === null ? Promise.resolve() : this.#drain(stdout);
    this.#timers.push(setTimeout(() => this.stop('timeout'), this.#options.timeoutMs));
    const exit = await this.#exit();
    this.#hasExited = true;
    this.#signal('SIGKILL');
    if (pid !== undefined) await killMarked(this.#options.mark);
    await this.#settle(drained);
    stdout?.destroy();
    for (const timer of this.#timers) clearTimeout(timer);
    if (pid !== undefined) running.delete(pid);
    if (running.size === 0) process.off('exit', killRunning);
    return { ...exit, stopped: this.#stopped, output: this.#output.finish() };
  }

  #exit(): Promise<Pick<ProcessOutcome, 'exitCode' | 'signal' | 'error'>> {
    const { timeoutMs } = this.#options;
    return new Promise((resolve) => {
      this.#child.once('error', (error) => resolve({ exitCode: null, signal: null, error }));
      this.#child.once('exit', (exitCode, signal) => resolve({ exitCode, signal, error: undefined }));
      const giveUpMs = Math.min(timeoutMs + KILL_GRACE_MS + UNKILLABLE_MS, MAX_DELAY_MS);
      const giveUp = () =>
        resolve({ exitCode: null, signal: null, error: new Error('The process could not be killed.') });
      this.#timers.push(setTimeout(giveUp, giveUpMs));
    });
  }

  #drain(stdout: Readable): Promise<void> {
    const { drainBytes = DRAIN_BYTES } = this.#options;
    stdout.on('data', (chunk: Buffer) => {
      this.#output.add(chunk);
      if (this.#output.totalBytes > drainBytes) this.stop('flood');
    });
    return new Promise((resolve) => {
      stdout.once('close', resolve);
      stdout.once('error', () => resolve());
    });
  }

  /** Whoever cleared its environment, and left the group, may hold the pipe open for as long as it likes. */
  async #settle(drained: Promise<void>): Promise<void> {
    const patience = new Promise<void>((resolve) => {
      this.#timers.push(setTimeout(resolve, PIPE_GRACE_MS));
    });
    await Promise.race([drained, patience]);
  }
}
