import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { builtFolder } from './on-demand.ts';
import { SCRATCH_ROOT } from './scratch-root.ts';
import { temporaryFolder } from './storages.ts';

/** A folder with this package and all that it needs, but without some packages or scopes of packages. */
export function installWithout(...missing: readonly string[]): string {
  const [folder, built] = [temporaryFolder(SCRATCH_ROOT), builtFolder()];
  const modules = join(dirname(built), 'node_modules');
  mkdirSync(join(folder, 'node_modules/savestate'), { recursive: true });
  cpSync(built, join(folder, 'node_modules/savestate/dist'), { recursive: true });
  cpSync(join(dirname(built), 'package.json'), join(folder, 'node_modules/savestate/package.json'));
  for (const name of readdirSync(modules).filter((each) => !missing.includes(each) && !each.startsWith('.')))
    symlinkSync(join(modules, name), join(folder, 'node_modules', name));
  return folder;
}
