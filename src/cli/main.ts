#!/usr/bin/env node
import { readFileSync } from 'node:fs';

const [word, ...others] = process.argv.slice(2);
const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
const { version } = JSON.parse(manifest) as { version: string };

if ((word === '--version' || word === '-V') && others.length === 0) {
  // Nothing else is needed for this, so nothing else is loaded.
  process.stdout.write(`${version}\n`);
} else {
  const { runMain } = await import('./run-main.ts');
  process.exitCode = await runMain(process, version);
}
