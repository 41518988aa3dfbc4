import { spawn } from 'node:child_process';

/** Stays on the screen if it fits, shows colours, and leaves the text there at the end. */
const LESS_OPTIONS = 'FRX';

/** Shows a text in the person's pager; returns whether there was one. */
export async function page(text: string, env: Readonly<Record<string, string | undefined>>): Promise<boolean> {
  const command = env.SAVESTATE_PAGER ?? env.PAGER ?? 'less';
  if (command === '' || command === 'cat') return false;
  return new Promise((resolve) => {
    const child = spawn(command, {
      shell: true,
      stdio: ['pipe', 'inherit', 'inherit'],
      env: { LESS: LESS_OPTIONS, ...env },
    });
    child.once('error', () => resolve(false));
    // A pager that is quit early does not read the rest.
    child.stdin.on('error', () => child.stdin.destroy());
    child.once('close', (code) => resolve(code !== NOT_INSTALLED));
    child.stdin.end(text);
  });
}

/** What a shell answers if it does not know a command. */
const NOT_INSTALLED = 127;
