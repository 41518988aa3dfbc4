// A pipeline with parallel branches that is killed twice: what has ended is not done again.
// node examples/workflow/data-pipeline.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { work } from './run.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-workflow-'));
const path = join(folder, 'pipeline.db');
try {
  console.log('1. A process begins, and is killed while it cleans.');
  await work(path, 'pipeline', 'clean/join');

  console.log('2. The next one is killed while it polishes.');
  await work(path, 'pipeline', 'polish[2]');

  console.log('3. The last one finishes.');
  await work(path, 'pipeline');
} finally {
  rmSync(folder, { recursive: true });
}
