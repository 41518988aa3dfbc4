import { type ChildProcess, spawn } from 'node:child_process';
import type { Context } from '../../base/context.ts';

/** What a shell returns if it does not know a command, and what a command returns that wants to stop. */
export const STOP = 127;

/** What a command gets: a value as JSON on its standard input, and variables beside those of this process. */
export type Asked = {
  readonly input: unknown;
  readonly variables?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
};

/** Runs a command of the person's; returns its exit code, or the signal that ended it. What it prints is no part of our answer, so it goes where notes go. */
export function askCommand(
  { env, folder }: Context,
  [program = '', ...args]: readonly string[],
  { input, variables, signal }: Asked,
): Promise<number | NodeJS.Signals> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: folder,
      env: { ...env, ...variables },
      stdio: ['pipe', 2, 2],
      detached: true,
    });
    const stop = (): void => {
      endGroup(child);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', stop, { once: true });
    child.stdin?.on('error', () => undefined); // it need not read what it is given
    child.once('error', reject);
    child.once('close', (code, killedBy) => {
      signal?.removeEventListener('abort', stop);
      resolve(code ?? killedBy ?? STOP);
    });
    child.stdin?.end(`${JSON.stringify(input)}\n`);
  });
}

/** Ends a command with everything it started, which would hold on to the terminal otherwise. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM');
  } catch {
    // it has ended already
  }
}
