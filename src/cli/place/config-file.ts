import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { Config } from './config-schema.ts';

export type { Config } from './config-schema.ts';

/** The name of the file that says where a project's checkpoints are. */
export const CONFIG_NAME = 'savestate.yaml';

/** A configuration and where it was found. */
export type FoundConfig = { readonly path: string; readonly config: Config };

/** The path of the nearest configuration file, in this folder or one above. */
export function findConfigPath(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const path = join(at, CONFIG_NAME);
    if (existsSync(path)) return path;
    if (dirname(at) === at) return undefined;
  }
}

/** Reads the nearest configuration; undefined if there is none. Refuses what it does not know, by name and line. */
export async function readConfig(folder: string): Promise<FoundConfig | undefined> {
  const path = findConfigPath(folder);
  if (path === undefined) return undefined;
  const [{ parse }, { configSchema }] = await Promise.all([import('yaml'), import('./config-schema.ts')]);
  const result = configSchema.safeParse(parseYaml(parse, path) ?? {});
  if (result.success) return { path, config: result.data };
  const [issue] = result.error.issues;
  throw new InvalidInputError(`${path} is not understood: ${issue?.path.join('.') || 'the file'}: ${issue?.message}.`, {
    details: { path, field: issue?.path.join('.') },
  });
}

function parseYaml(parse: (text: string) => unknown, path: string): unknown {
  try {
    return parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new InvalidInputError(`${path} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, {
      details: { path },
      cause,
    });
  }
}

/** Changes one value of a configuration file and leaves its comments; `undefined` removes it. */
export async function writeConfigValue(path: string, key: string, value: string | undefined): Promise<void> {
  const { parseDocument } = await import('yaml');
  const { configSchema } = await import('./config-schema.ts');
  const document = parseDocument(existsSync(path) ? readFileSync(path, 'utf8') : '');
  if (value === undefined) document.delete(key);
  else document.set(key, value);
  const result = configSchema.safeParse(document.toJS() ?? {});
  if (!result.success)
    throw new InvalidInputError(`${key} cannot be ${JSON.stringify(value)}: ${result.error.issues[0]?.message}.`);
  const { writeFileSync } = await import('node:fs');
  writeFileSync(path, document.contents === null ? '' : document.toString());
}
