import { type ChildProcess, type Serializable, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { RateLimit } from './rate-limit.ts';

/** What to run, and how long to bear with it. */
export type SuperviseOptions = {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Where the process reads and writes; a channel for messages is added. Default: where this one does. */
  readonly stdio?: readonly ('inherit' | 'ignore' | 'pipe')[];
  /** A process that gives no sign of life for so long hangs, and is killed. Default: 60 seconds. */
  readonly hangMs?: number;
  /** Which messages are signs of life; default: the loop's `heartbeat` events, which stop when a turn does not end. */
  readonly isHeartbeat?: (message: unknown) => boolean;
  /** The exit code by which a process asks for a new one at once. Default: 75. */
  readonly refreshCode?: number;
  /** Crashes and hangs within `windowMs` that are borne: 5 within 10 minutes. */
  readonly maxRestarts?: number;
  readonly windowMs?: number;
  /** The pause before the first restart; doubles with each within the window, up to a minute. Default: 1 second. */
  readonly backoffMs?: number;
  /** How long a process that was told to stop may take before it is killed. Default: 10 seconds. */
  readonly stopMs?: number;
  readonly onMessage?: (message: unknown) => void;
  readonly onEvent?: (event: SupervisionEvent) => void;
};

/** What happens to the process. */
export type SupervisionEvent =
  | { readonly kind: 'spawned'; readonly pid: number | undefined }
  | { readonly kind: 'hung'; readonly pid: number | undefined }
  | { readonly kind: 'ended'; readonly why: ProcessEnd; readonly code: number | null; readonly signal: string | null }
  | { readonly kind: 'gave_up'; readonly restarts: number };

/** Why a process ended. */
export type ProcessEnd = 'done' | 'refresh' | 'crash' | 'hang' | 'stopped';

/** How the supervision ended: the work is done, it was stopped, or the process could not be kept alive. */
export type SupervisionEnding = { readonly status: 'done' | 'stopped' | 'gave_up'; readonly restarts: number };

const DEFAULTS = {
  hangMs: 60_000,
  refreshCode: 75,
  maxRestarts: 5,
  windowMs: 600_000,
  backoffMs: 1000,
  stopMs: 10_000,
};
const MAX_BACKOFF_MS = 60_000;

/** Keeps a process alive: starts it again when it crashes, hangs or asks for it, but not for ever. */
export function superviseProcess(options: SuperviseOptions): SupervisedProcess {
  return new SupervisedProcess(options);
}

/** A process and its successors. */
export class SupervisedProcess {
  /** Never rejects. */
  readonly ended: Promise<SupervisionEnding>;
  readonly #options: SuperviseOptions & typeof DEFAULTS;
  readonly #failures: RateLimit;
  readonly #stopping = new AbortController();
  #child: ChildProcess | undefined;
  #restarts = 0;

  constructor(options: SuperviseOptions) {
    this.#options = { ...DEFAULTS, ...options };
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
      const why = await this.#runOnce();
      const restarts = this.#restarts;
      if (why === 'done') return { status: 'done', restarts };
      if (why === 'crash' || why === 'hang') {
        if (this.#failures.isUsedUp(Date.now())) return this.#giveUp();
        this.#failures.note(Date.now());
        await this.#pause();
      }
      if (why === 'stopped' || this.#isStopping) return { status: 'stopped', restarts };
      this.#restarts++;
    }
  }

  #giveUp(): SupervisionEnding {
    this.#options.onEvent?.({ kind: 'gave_up', restarts: this.#restarts });
    return { status: 'gave_up', restarts: this.#restarts };
  }

  async #pause(): Promise<void> {
    const failures = this.#failures.timesMs(Date.now()).length;
    const delayMs = Math.min(this.#options.backoffMs * 2 ** (failures - 1), MAX_BACKOFF_MS);
    await waitFor(delayMs, this.#stopping.signal);
  }

  async #runOnce(): Promise<ProcessEnd> {
    const { command, args = [], cwd, env, stdio = ['inherit', 'inherit', 'inherit'], onEvent } = this.#options;
    const child = spawn(command, [...args], {
      stdio: [...stdio, 'ipc'] as StdioOptions,
      ...(cwd !== undefined && { cwd }),
      ...(env !== undefined && { env }),
    });
    child.on('error', () => undefined); // a command that cannot be started, or a signal that cannot be sent, shows in how it ends
    this.#child = child;
    onEvent?.({ kind: 'spawned', pid: child.pid });
    const watch = this.#watch(child);
    const [code, signal] = await endOf(child);
    const why = this.#judge(code, watch.end());
    onEvent?.({ kind: 'ended', why, code, signal });
    return why;
  }

  /** Kills a process that falls silent, or does not stop when told; answers, at its end, whether it was silent. */
  #watch(child: ChildProcess): { end(): boolean } {
    const { hangMs, stopMs, isHeartbeat = isLoopHeartbeat, onMessage, onEvent } = this.#options;
    let isHung = false;
    const hang = setTimeout(() => {
      isHung = true;
      onEvent?.({ kind: 'hung', pid: child.pid });
      child.kill('SIGKILL');
    }, hangMs);
    let kill: NodeJS.Timeout | undefined;
    const stop = (): void => {
      child.kill('SIGTERM');
      kill = setTimeout(() => child.kill('SIGKILL'), stopMs);
    };
    child.on('message', (message) => {
      if (isHeartbeat(message)) hang.refresh();
      onMessage?.(message);
    });
    if (this.#isStopping) stop();
    this.#stopping.signal.addEventListener('abort', stop);
    return {
      end: () => {
        clearTimeout(hang);
        clearTimeout(kill);
        this.#stopping.signal.removeEventListener('abort', stop);
        return isHung;
      },
    };
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
    const timer = setTimeout(resolve, delayMs);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
