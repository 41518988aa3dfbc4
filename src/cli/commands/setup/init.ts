import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { InvalidInputError } from '../../../core/errors.ts';
import { makeFolder } from '../../../storage/make-folder.ts';
import { formatStorageAddress, storageExists } from '../../../storage/open/address.ts';
import type { Command } from '../../base/command.ts';
import { isRemote } from '../../place/address.ts';
import { CONFIG_NAME, DEFAULT_STORAGE, readConfig } from '../../place/project.ts';

const INSTEAD = `Name the server in ${CONFIG_NAME} instead: "storage: http://...".`;

/** Makes a storage here. */
export const command: Command = {
  details: `Creates the storage and a ${CONFIG_NAME} that names it, so that commands in this folder and below find it. Existing files are not changed.`,
  examples: [
    ['savestate init', `a SQLite file, ${DEFAULT_STORAGE.replace('sqlite:', '')}`],
    ['savestate init --storage file:checkpoints', 'plain files'],
    ['savestate init --storage postgres://app@db/app --tenant acme', 'PostgreSQL'],
  ],
  run: async (context) => {
    const config = join(context.folder, CONFIG_NAME);
    const { storage = DEFAULT_STORAGE, remote, tenant, schema } = context.globals;
    if (remote !== undefined || isRemote(storage)) await context.addressHere(INSTEAD); // before anything is written
    if (existsSync(config))
      await readConfig(context.folder); // one that cannot be read must be told now
    else {
      if (/^\w+:\/\/[^/@]*:[^/@]*@/.test(storage))
        throw new InvalidInputError(
          `A password does not belong in ${CONFIG_NAME}. Leave it out and set PGPASSWORD, with PGHOST and PGPORT for a server elsewhere.`,
        );
      writeFileSync(config, formatConfig({ storage, tenant, schema }));
    }
    const address = await context.addressHere(INSTEAD);
    const wasThere = address.kind !== 'postgres' && storageExists(address);
    if ('path' in address) makeFolder(address.kind === 'file' ? address.path : dirname(address.path));
    const { manager } = await context.open({ create: true });
    await manager.stats(); // a server makes its tables, a folder its files, at the first use
    const shown = formatStorageAddress(address);
    await context.answer(
      { storage: shown, config, wasThere },
      () => `${wasThere ? 'There is a storage already' : 'A new storage is'} at ${shown}; ${config} names it.\n`,
    );
    if (address.kind === 'sqlite')
      context.say(`Keep it out of version control: add ${nameFor(storage)} to .gitignore.`);
    context.say('Next: open it from a program with the same path, then: savestate log');
  },
};

/** The database with its log, as git is to ignore them. */
function nameFor(storage: string): string {
  return storage === DEFAULT_STORAGE ? '.savestate/' : `${storage.replace(/^\w+:/, '')}*`;
}

function formatConfig(values: Readonly<Record<string, string | undefined>>): string {
  const lines = [
    '# Where the checkpoints are: sqlite:<file>, file:<folder> or postgres://<server>/<database>; relative to this file.',
    ...Object.entries(values).flatMap(([key, value]) =>
      value === undefined ? [] : `${key}: ${JSON.stringify(value)}`,
    ),
    '# The session that commands are about when none is named:',
    '# session: chat-42',
    '# What "savestate prune" keeps when it is not told:',
    '# retention: { keepLast: 10, keepDaily: 7, maxAgeDays: 90 }',
  ];
  return `${lines.join('\n')}\n`;
}
