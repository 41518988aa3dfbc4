import { spawn } from 'node:child_process';
import type { Command } from '../../base/command.ts';
import { SERVER_OPTIONS, serve } from '../../server/run-server.ts';

/** Opens the studio in a browser. */
export const command: Command = {
  arguments: '[storage]',
  options: [...SERVER_OPTIONS, ['--no-open', 'do not open a browser; the address is printed anyway']],
  details: `Starts a server, as "savestate serve" does, and opens its page. The address has the token after a #, which browsers
do not send; the page exchanges it for a cookie. Runs until Ctrl-C.`,
  examples: [
    ['savestate studio', 'the storage of this project'],
    ['savestate studio agent.db --read-only', 'another one, read only'],
  ],
  run: (context, input) =>
    serve(context, input, async ({ accessUrl }) => {
      if (input.isOff('open') || !context.terminal.isScreen) return;
      if (!(await openBrowser(accessUrl))) context.say('No browser could be opened. Open the address above.');
    }),
};

const OPENERS: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};

/** Returns whether there was a program to open it with. */
function openBrowser(url: string): Promise<boolean> {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  return new Promise((resolve) => {
    const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}
