import { dirname, resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { KeyFile } from '../../storage/encryption/key-file.ts';
import type { Keys } from '../../storage/encryption/keys.ts';
import type { FoundConfig, Surroundings } from './project.ts';

/** Where keys come from, in words; `file` if they can be changed here. */
export type KeySource = { readonly keys: Keys; readonly from: string; readonly file?: KeyFile };

/** A key command that takes longer waits for somebody who is not there. */
const COMMAND_TIMEOUT_MS = 60_000;

const VARIABLES = ['SAVESTATE_KEYS', 'SAVESTATE_KEY_FILE', 'SAVESTATE_KEY_COMMAND'] as const;

/**
 * The keys that hold here: of a variable, else those that savestate.yaml names; undefined without any. A command comes from the
 * environment alone: what a file in a folder says must not run when somebody looks at a storage there.
 */
export async function findKeys({ env, folder, config }: Surroundings): Promise<KeySource | undefined> {
  const [name, other] = VARIABLES.filter((each) => env[each]);
  if (other !== undefined) throw new InvalidInputError(`${name} and ${other} are both set. Keep one of them.`);
  switch (name) {
    case 'SAVESTATE_KEYS':
      return fromText(name, async () => env[name] ?? '');
    case 'SAVESTATE_KEY_COMMAND':
      return fromText(name, () => runCommand(env[name] ?? ''));
    case 'SAVESTATE_KEY_FILE':
      return fromFile(resolve(folder, env[name] ?? ''));
    default:
      return fromConfig(config, env);
  }
}

async function fromConfig(config: FoundConfig | undefined, env: Surroundings['env']): Promise<KeySource | undefined> {
  const named = config?.config.encryption?.keys;
  if (config === undefined || named === undefined) return undefined;
  const at = named.indexOf(':');
  const [kind, rest] = [named.slice(0, at), named.slice(at + 1)];
  if (kind === 'file' && rest !== '') return fromFile(resolve(dirname(config.path), rest));
  if (kind !== 'env')
    throw new InvalidInputError(
      `${config.path}: encryption.keys is file:<path> or env:<variable>. For a command set SAVESTATE_KEY_COMMAND.`,
    );
  if (env[rest]) return fromText(rest, async () => env[rest] ?? '');
  throw new InvalidInputError(`${config.path} takes the keys from the variable ${rest}, which is not set.`);
}

async function fromFile(path: string): Promise<KeySource> {
  const { KeyFile } = await import('../../storage/encryption/key-file.ts');
  const file = new KeyFile(path);
  return { keys: file, from: `the file ${path}`, file };
}

async function fromText(variable: string, read: () => Promise<string>): Promise<KeySource> {
  const { Keyring } = await import('../../storage/encryption/keyring.ts');
  return { keys: { read: async () => Keyring.parse(await read()) }, from: `the variable ${variable}` };
}

/** Its own errors go to the person; what it printed is never shown. */
export async function runCommand(command: string, timeoutMs = COMMAND_TIMEOUT_MS): Promise<string> {
  const [{ execFile }, { promisify }] = await Promise.all([import('node:child_process'), import('node:util')]);
  try {
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { timeout: timeoutMs });
    return stdout;
  } catch (cause) {
    const { code, killed, stderr = '' } = cause as { code?: unknown; killed?: boolean; stderr?: string };
    if (killed === true && code === null)
      throw new InvalidInputError(
        `SAVESTATE_KEY_COMMAND was stopped: it gave no keys within ${timeoutMs / 1000} seconds. ${stderr.trim()}`.trim(),
      );
    throw new InvalidInputError(
      `SAVESTATE_KEY_COMMAND failed (${String(code)}): ${stderr.trim() || 'it said nothing'}`,
    );
  }
}
