import { join, resolve } from 'node:path';
import { runnerImport } from 'vite';

const SOURCES = resolve(import.meta.dirname, '../src');

/** A module of the sources, by its path below `src`, for programs that are about what the built package does not export. It takes over standard input. */
export async function importSource(path) {
  const { module } = await runnerImport(join(SOURCES, path), { configFile: false, logLevel: 'error' });
  return module;
}
