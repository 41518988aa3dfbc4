// Makes the demo in a folder of its own and opens the studio on it, until Ctrl-C.
// node examples/studio/open.mjs
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeDemo } from './demo.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-studio-'));
const path = join(folder, 'demo.db');
await makeDemo(path);
const program = join(dirname(createRequire(import.meta.url).resolve('savestate')), 'cli/main.js');
const studio = spawn(process.execPath, [program, 'studio', path, ...process.argv.slice(2)], { stdio: 'inherit' });
process.on('SIGINT', () => undefined); // the studio ends by it, and then this does
studio.on('exit', (code) => {
  rmSync(folder, { recursive: true, force: true });
  process.exitCode = code ?? 0;
});
