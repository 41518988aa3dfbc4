#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import module from 'node:module';

const [word, ...others] = process.argv.slice(2);
const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
const { version } = JSON.parse(manifest) as { version: string };

if ((word === '--version' || word === '-V') && others.length === 0) {
  // Nothing else is needed for this, so nothing else is loaded.
  process.stdout.write(`${version}\n`);
} else {
  // Node 22 and later keep what they compiled for the next start, unless NODE_DISABLE_COMPILE_CACHE is set.
  (module as { enableCompileCache?: () => unknown }).enableCompileCache?.();
  const { runMain } = await import('./run-main.ts');
  process.exitCode = await runMain(process, version);
}
