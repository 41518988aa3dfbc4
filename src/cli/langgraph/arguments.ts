import { parseArgs } from 'node:util';
import { InvalidInputError } from '../../core/errors.ts';

/** What a person asked for. */
export type Arguments = {
  readonly command: 'import' | 'export';
  readonly from: string;
  readonly to: string;
  readonly threads?: readonly string[];
  readonly tenant?: string;
  readonly schema?: string;
  readonly allowLossy: boolean;
  readonly json: boolean;
};

/** Told about how a command is written, not about what it did. */
export class UsageError extends InvalidInputError {}

export const USAGE = `Moves threads between LangGraph's own savers and Savestate.

  savestate langgraph import <from> --to <savestate>     from a database of SqliteSaver or PostgresSaver
  savestate langgraph export <savestate> --to <to>       back into one

A place is the path of a SQLite file, or an address that begins with postgres://.

  --to <place>        where the threads go; a file is made if it does not exist
  --from <place>      the same as the first argument
  --threads <a,b>     only these threads; default all
  --tenant <name>     whose threads these are; needed where Savestate is in PostgreSQL
  --schema <name>     the schema of PostgresSaver's tables; default public
  --allow-lossy       export also what LangGraph's serializer changes
  --json              print the report as JSON, and no progress
  --help              this text

Examples
  npx savestate langgraph import checkpoints.db --to threads.db
  npx savestate langgraph import postgres://app@db/app --to threads.db --threads alice,bob
  npx savestate langgraph import checkpoints.db --to postgres://app@db/app --tenant acme --json
  npx savestate langgraph export threads.db --to checkpoints.db

The source is only read. Whatever is there already is left alone, so a command that was stopped can be run again.
Exit codes: 0 all threads are there, 1 it failed, 2 the command is not understood, 3 done, but the report names what was skipped
or is not whole, 130 stopped by Ctrl-C.
`;

/** Reads the arguments; undefined if help was asked for. Throws a UsageError. */
export function parseArguments(args: readonly string[]): Arguments | undefined {
  const { values, positionals } = parse(args);
  if (values.help === true) return undefined;
  const { tenant, schema, threads } = values;
  return {
    ...parsePlaces(positionals, values),
    ...(threads !== undefined && { threads: threads.split(',').filter((name) => name !== '') }),
    ...(tenant !== undefined && { tenant }),
    ...(schema !== undefined && { schema }),
    allowLossy: values['allow-lossy'] === true,
    json: values.json === true,
  };
}

function parsePlaces(
  [command, ...places]: readonly string[],
  { from, to }: { readonly from?: string; readonly to?: string },
): Pick<Arguments, 'command' | 'from' | 'to'> {
  if (command !== 'import' && command !== 'export')
    throw new UsageError(`The command must be import or export; found ${command ?? 'none'}.`);
  const [source, extra] = from === undefined ? places : [from, ...places];
  if (!source) throw new UsageError(`Say where to ${command} from.`);
  if (extra !== undefined) throw new UsageError(`There is one argument too many: ${extra}.`);
  if (!to) throw new UsageError('Say where the threads go: --to <place>.');
  return { command, from: source, to };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        from: { type: 'string' },
        to: { type: 'string' },
        threads: { type: 'string' },
        tenant: { type: 'string' },
        schema: { type: 'string' },
        'allow-lossy': { type: 'boolean' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (cause) {
    throw new UsageError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}
