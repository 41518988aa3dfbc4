import { importWithPeers } from '../../../adapter/langgraph/peers.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import type { Command, CommandInput } from '../../base/command.ts';
import type { Transfer } from '../../langgraph/transfer.ts';

const DIRECTIONS: Readonly<Record<string, Transfer['direction']>> = { import: 'import', export: 'export' };

/** Moves threads from and to LangGraph's own savers. */
export const command: Command = {
  arguments: '<action> [from]',
  options: [
    ['--to <place>', 'where the threads go; a file is created if it does not exist'],
    ['--threads <a,b>', 'only these threads; default all'],
    ['--allow-lossy', "also export values that LangGraph's serializer changes"],
  ],
  details: `Actions: import <from> --to <storage> (from a database of SqliteSaver or PostgresSaver), export <storage> --to <place> (back into one).
A place is the path of a SQLite file, or an address that starts with postgres://; a storage is written as for --storage.
--tenant is the tenant of Savestate in PostgreSQL, --schema the schema of PostgresSaver.
The source is only read. Existing threads are not touched, so a stopped command can be run again.
Exits with 3 if something was skipped or is incomplete.`,
  examples: [
    ['savestate langgraph import checkpoints.db --to threads.db', 'from a database of SqliteSaver'],
    [
      'savestate langgraph import postgres://app@db/app --to threads.db --threads alice,bob',
      'two threads of PostgresSaver',
    ],
    ['savestate langgraph import checkpoints.db --to postgres://app@db/app --tenant acme', 'into PostgreSQL'],
    ['savestate langgraph export threads.db --to checkpoints.db', 'back'],
  ],
  run: async (context, input) => {
    const wanted = readTransfer(input);
    const { transfer } = await importWithPeers(() => import('../../langgraph/transfer.ts'));
    return transfer(context, wanted);
  },
};

function readTransfer(input: CommandInput): Transfer {
  const direction = input.action('langgraph', DIRECTIONS);
  const from = input.need(1, `where to ${direction} from`);
  const to = input.text('to');
  if (!to) throw new InvalidInputError('Say where the threads go: --to <place>.');
  const threads = input
    .text('threads')
    ?.split(',')
    .filter((name) => name !== '');
  return { direction, from, to, allowLossy: input.flag('allowLossy'), ...(threads !== undefined && { threads }) };
}
