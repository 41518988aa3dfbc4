import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Installs what a folder of the bench compares us with, if it is not there yet. It is no dependency of the project. */
export function installPeers(folder) {
  if (existsSync(join(folder, 'node_modules', '.package-lock.json'))) return; // npm writes it last
  console.log(`Installing the other side into ${folder}. What compiles a native module takes a minute or two.`);
  const options = ['--legacy-peer-deps', '--no-package-lock', '--no-audit', '--no-fund'];
  const { status } = spawnSync('npm', ['install', ...options], { cwd: folder, stdio: 'inherit' });
  if (status !== 0) throw new Error(`The other side of ${folder} could not be installed; see above.`);
}
