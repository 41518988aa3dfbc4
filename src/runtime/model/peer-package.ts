import { UnsupportedError } from '../../core/errors.ts';

/** Loads an optional package; throws an UnsupportedError that names it if it is not installed. */
export async function importPeer<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    throw new UnsupportedError(`This model needs the package ${name}. Install it: npm install ${name}`, { cause });
  }
}
