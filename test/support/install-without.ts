import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BUILT } from './built.ts';
import { SCRATCH_ROOT } from './scratch-root.ts';
import { temporaryFolder } from './storages.ts';

/** A folder with this package and all that it needs, but without some packages or scopes of packages. */
export function installWithout(...missing: readonly string[]): string {
  const folder = temporaryFolder(SCRATCH_ROOT);
  const modules = join(dirname(BUILT), 'node_modules');
  mkdirSync(join(folder, 'node_modules/savestate'), { recursive: true });
  cpSync(BUILT, join(folder, 'node_modules/savestate/dist'), { recursive: true });
  cpSync(join(dirname(BUILT), 'package.json'), join(folder, 'node_modules/savestate/package.json'));
  for (const name of readdirSync(modules).filter((each) => !missing.includes(each) && !each.startsWith('.')))
    symlinkSync(join(modules, name), join(folder, 'node_modules', name));
  return folder;
}
