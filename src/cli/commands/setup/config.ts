import { join } from 'node:path';
import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import type { Command, Context } from '../../base/command.ts';
import { formatAddress } from '../../place/address.ts';
import { CONFIG_NAME, findConfigPath, readConfig, writeConfigValue } from '../../place/project.ts';

const SETTABLE = ['storage', 'tenant', 'schema', 'session', 'team', 'registry', 'workflow', 'memory'];

/** Shows and changes the configuration. */
export const command: Command = {
  arguments: '[key] [value]',
  options: [['--unset', 'remove the value']],
  details: `Reads the nearest ${CONFIG_NAME}, in this folder or above. Keys that can be set: ${SETTABLE.join(', ')}; the rest is edited in the file.`,
  examples: [
    ['savestate config', 'the settings here'],
    ['savestate config session chat-42', 'commands use this session from now on'],
    ['savestate config session --unset', 'remove that setting'],
    ['savestate config team team.yaml', 'the team for "savestate run"'],
  ],
  run: async (context, input) => {
    const [key, value] = [input.word(0), input.word(1)];
    if (key !== undefined && (value !== undefined || input.flag('unset'))) await change(context, key, value);
    else if (key !== undefined) return showOne(context, key);
    const found = await readConfig(context.folder);
    const storage = formatAddress(await context.address());
    const values = { ...found?.config };
    return context.answer({ ...withoutUndefined({ path: found?.path }), storage, values }, () => {
      const lines = Object.entries(values).map(([name, set]) => `${name}: ${format(set)}\n`);
      return `# ${found?.path ?? `no ${CONFIG_NAME} here or above`}; the storage is ${storage}\n${lines.join('')}`;
    });
  },
};

function format(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

async function change(context: Context, key: string, value: string | undefined): Promise<void> {
  if (!SETTABLE.includes(key))
    throw new InvalidInputError(`"${key}" cannot be set here. These can: ${SETTABLE.join(', ')}.`);
  await writeConfigValue(findConfigPath(context.folder) ?? join(context.folder, CONFIG_NAME), key, value);
}

async function showOne(context: Context, key: string): Promise<undefined> {
  const { path, config = {} } = (await context.config()) ?? {};
  const value: unknown = new Map(Object.entries(config)).get(key);
  if (value === undefined)
    throw new InvalidInputError(`"${key}" is not set${path === undefined ? '' : ` in ${path}`}.`);
  const storage = formatAddress(await context.address());
  const output = { ...withoutUndefined({ path }), storage, values: { [key]: value } };
  return context.answer(output, () => `${format(value)}\n`);
}
