#!/usr/bin/env node
import { readFileSync } from 'node:fs';

const [word, ...others] = process.argv.slice(2);

if ((word === '--version' || word === '-V') && others.length === 0) {
  // Nothing else is needed for this, so nothing else is loaded.
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  process.stdout.write(`${version}\n`);
} else {
  const { runMain } = await import('./run-main.ts');
  process.exitCode = await runMain(process);
}
