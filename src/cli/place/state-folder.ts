import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The folder where the command line keeps what is its own about a storage: bisect, history, what it can undo. */
export function stateFolderOf(env: Readonly<Record<string, string | undefined>>, storage: string): string {
  const base = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state');
  return join(base, 'savestate', createHash('sha256').update(storage).digest('hex').slice(0, 16));
}

/** Who knows that folder. */
export type OwnFolder = { stateFolder(): Promise<string> };
