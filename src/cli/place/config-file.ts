import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from './config-schema.ts';
import { readText } from './read-text.ts';

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

/** Reads the nearest configuration; undefined if there is none. Refuses what it does not know, by line and column. */
export async function readConfig(folder: string): Promise<FoundConfig | undefined> {
  const path = findConfigPath(folder);
  return path === undefined ? undefined : { path, config: await parseConfig(readText(path, 'configuration'), path) };
}

async function parseConfig(text: string, path: string): Promise<Config> {
  const [{ yamlSource }, { checkSchema }, { problemsError }, { configSchema }] = await Promise.all([
    import('../../runtime/config/yaml-source.ts'),
    import('../../runtime/config/schema-problems.ts'),
    import('../../runtime/config/problem.ts'),
    import('./config-schema.ts'),
  ]);
  const source = yamlSource(text);
  if (source.problems.length > 0) throw problemsError(path, source.problems);
  const { value, problems } = checkSchema({ source, schema: configSchema, value: source.data ?? {}, path: [] });
  if (value === undefined) throw problemsError(path, problems);
  return value;
}

/** Changes one value of a configuration file and leaves its comments; `undefined` removes it. */
export async function writeConfigValue(path: string, key: string, value: string | undefined): Promise<void> {
  const [{ isMap }, { yamlDocument }, { problemsError }] = await Promise.all([
    import('yaml'),
    import('../../runtime/config/yaml-source.ts'),
    import('../../runtime/config/problem.ts'),
  ]);
  const before = existsSync(path) ? readText(path, 'configuration') : '';
  const { document, problems } = yamlDocument(before);
  if (problems.length > 0) throw problemsError(path, problems);
  if (document.contents !== null && !isMap(document.contents)) await parseConfig(before, path); // says what it is
  if (value === undefined) document.delete(key);
  else document.set(key, value);
  const text = document.contents === null ? '' : document.toString();
  await parseConfig(text, path);
  writeFileSync(path, text);
}
