import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The folder of this package. A file of it does not know how deep it lies: the build puts many into one. */
export function packageFolder(): string {
  return dirname(createRequire(import.meta.url).resolve('savestate/package.json'));
}

type Manifest = { readonly version: string; readonly peerDependencies: Readonly<Record<string, string>> };

/** What a package says about itself; unless another folder is given, this one. */
export function readManifest(folder = packageFolder()): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}
