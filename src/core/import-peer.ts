import { UnsupportedError } from './errors.ts';

/** Loads an optional package; throws an UnsupportedError that says who needs it if it is not installed. */
export async function importPeer<Module>(
  name: string,
  load: () => Promise<Module>,
  who = 'This model',
): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    throw new UnsupportedError(`${who} needs the package ${name}. Install it: npm install ${name}`, { cause });
  }
}
