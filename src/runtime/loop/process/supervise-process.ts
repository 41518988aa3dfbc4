import { type ChildProcess, type Serializable, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { backoff } from '../../../core/time/backoff.ts';
import { callListener } from '../state/call-listener.ts';
import { RateLimit } from './rate-limit.ts';
import {
  type ProcessEnd,
  type ReadSuperviseOptions,
  readSuperviseOptions,
  type SuperviseOptions,
  type SupervisionEvent,
} from './supervise-options.ts';

/** How the supervision ended: the work is done, it was stopped, or the process could not be kept alive. */
export type SupervisionEnding = { readonly status: 'done' | 'stopped' | 'gave_up'; readonly restarts: number };

const MAX_BACKOFF_MS = 60_000;

/** Keeps a process alive: starts it again when it crashes, hangs or asks for it, but not for ever. Bad options throw. */
export function superviseProcess(options: SuperviseOptions): SupervisedProcess {
  return new SupervisedProcess(options);
}

/** A process and its successors. */
export class SupervisedProcess {
  /** Never rejects. */
  readonly ended: Promise<SupervisionEnding>;
  readonly #options: ReadSuperviseOptions;
  readonly #failures: RateLimit;
  readonly #stopping = new AbortController();
  #child: ChildProcess | undefined;
  #restarts = 0;

  constructor(options: SuperviseOptions) {
    this.#options = readSuperviseOptions(options);
    const { maxRestarts: max, windowMs } = this.#options;
    this.#failures = new RateLimit({ cooldownMs: 0, max, windowMs });
    this.ended = this.#keepAlive();
  }

  /** The process that runs now. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Sends a message to the process that runs now; answers whether there was one to take it. */
  send(message: Serializable): boolean {
    return this.#child?.connected === true && this.#child.send(message, () => undefined);
  }

  /** Tells the process to end, and kills it if it does not. */
  async stop(): Promise<SupervisionEnding> {
    this.#stopping.abort();
    return this.ended;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #keepAlive(): Promise<SupervisionEnding> {
    for (;;) {
      const { why, hasLived } = await this.#runOnce();
      const restarts = this.#restarts;
      if (why === 'done') return { status: 'done', restarts };
      // One that asks for a successor before it gave a sign of life would do so for ever.
      if (why === 'crash' || why === 'hang' || (why === 'refresh' && !hasLived)) {
        // By a clock that nobody sets.
        const nowMs = performance.now();
        if (this.#failures.isUsedUp(nowMs)) return this.#giveUp();
        this.#failures.note(nowMs);
        await this.#pause(this.#failures.timesMs(nowMs).length);
      }
      if (why === 'stopped' || this.#isStopping) return { status: 'stopped', restarts };
      this.#restarts++;
    }
  }

  #giveUp(): SupervisionEnding {
    this.#tell({ kind: 'gave_up', restarts: this.#restarts });
    return { status: 'gave_up', restarts: this.#restarts };
  }

  /** A listener that fails is no reason to let the process go. */
  #tell(event: SupervisionEvent): void {
    callListener(event.kind, () => this.#options.onEvent?.(event));
  }

  async #pause(failures: number): Promise<void> {
    const delayMs = backoff(failures, { firstMs: this.#options.backoffMs, maxMs: MAX_BACKOFF_MS });
    await waitFor(delayMs, this.#stopping.signal);
  }

  async #runOnce(): Promise<{ readonly why: ProcessEnd; readonly hasLived: boolean }> {
    const child = this.#spawn();
    this.#child = child;
    this.#tell({ kind: 'spawned', pid: child?.pid });
    if (child === undefined) return { why: this.#end([null, null], false), hasLived: false };
    const watch = this.#watch(child);
    const end = await endOf(child);
    const { isHung, hasLived } = watch.end();
    return { why: this.#end(end, isHung), hasLived };
  }

  /** A command that cannot be started, or a signal that cannot be sent, shows in how the process ends. */
  #spawn(): ChildProcess | undefined {
    const { command, args = [], cwd, env, stdio = ['inherit', 'inherit', 'inherit'] } = this.#options;
    try {
      const child = spawn(command, [...args], {
        stdio: [...stdio, 'ipc'] as StdioOptions,
        ...(cwd !== undefined && { cwd }),
        ...(env !== undefined && { env }),
      });
      child.on('error', () => undefined);
      return child;
    } catch {
      return undefined;
    }
  }

  #end([code, signal]: End, isHung: boolean): ProcessEnd {
    const why = this.#judge(code, isHung);
    this.#tell({ kind: 'ended', why, code, signal });
    return why;
  }

  /** Kills a process that falls silent, or does not stop when told; answers, at its end, whether it was silent, and ever spoke. */
  #watch(child: ChildProcess): { end(): { isHung: boolean; hasLived: boolean } } {
    const { hangMs, stopMs, onMessage } = this.#options;
    let isHung = false;
    let hasLived = false;
    const hang = setTimeout(() => {
      isHung = true;
      this.#tell({ kind: 'hung', pid: child.pid });
      child.kill('SIGKILL');
    }, hangMs);
    let kill: NodeJS.Timeout | undefined;
    const stop = (): void => {
      child.kill('SIGTERM');
      kill = setTimeout(() => child.kill('SIGKILL'), stopMs);
    };
    child.on('message', (message) => {
      if (this.#isHeartbeat(message)) {
        hasLived = true;
        hang.refresh();
      }
      callListener('message', () => onMessage?.(message));
    });
    if (this.#isStopping) stop();
    this.#stopping.signal.addEventListener('abort', stop);
    return {
      end: () => {
        clearTimeout(hang);
        clearTimeout(kill);
        this.#stopping.signal.removeEventListener('abort', stop);
        return { isHung, hasLived };
      },
    };
  }

  #isHeartbeat(message: unknown): boolean {
    const { isHeartbeat = isLoopHeartbeat } = this.#options;
    let isSign = false;
    callListener('message', () => {
      isSign = isHeartbeat(message) === true; // a promise is no answer
    });
    return isSign;
  }

  #judge(code: number | null, isHung: boolean): ProcessEnd {
    if (this.#isStopping) return 'stopped';
    if (isHung) return 'hang';
    if (code === 0) return 'done';
    return code === this.#options.refreshCode ? 'refresh' : 'crash';
  }
}

function isLoopHeartbeat(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === 'heartbeat';
}

type End = [code: number | null, signal: NodeJS.Signals | null];

/** A command that cannot be started ends like one that crashed. */
async function endOf(child: ChildProcess): Promise<End> {
  try {
    return (await once(child, 'exit')) as End;
  } catch {
    return [null, null];
  }
}

async function waitFor(delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, delayMs);
    signal.addEventListener('abort', end);
  });
}
