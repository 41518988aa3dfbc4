import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = import.meta.dirname;

/** Installs the official savers if they are not here yet. They are no dependencies of the project: one compiles a native module. */
export function installPeers() {
  if (existsSync(join(FOLDER, 'node_modules', '.package-lock.json'))) return; // npm writes it last
  console.log('Installing the official savers into bench/langgraph. One compiles a native module: a minute or two.');
  const { status } = spawnSync('npm', ['install', '--no-package-lock', '--no-audit', '--no-fund'], {
    cwd: FOLDER,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('The official savers could not be installed; see above.');
}
