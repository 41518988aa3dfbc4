import {
  accepts,
  callback,
  checkOptions,
  filledString,
  flag,
  having,
  listOf,
  type OptionChecks,
  string,
  wholeFrom,
} from '../core/options.ts';
import type { Memory } from '../memory/memory.ts';
import type { ServedTeam } from './handlers/team-runs.ts';

/** How a server is made. */
export type ServerOptions = {
  /** What requests must know; default: a random one. `false`: none, for a handler behind your own checks; such a server listens on this machine only. */
  readonly token?: string | false | undefined;
  /** Nothing can be changed. */
  readonly readOnly?: boolean | undefined;
  /** Names, besides those of this machine, under which the server is reached. */
  readonly hosts?: readonly string[] | undefined;
  /** Pages of these origins may ask, too (CORS), with the token as a bearer. */
  readonly origins?: readonly string[] | undefined;
  /** Long-term memory to search. */
  readonly memory?: Memory | undefined;
  /** Who may be run by requests: what `savestate studio --team` does, or your own. Nothing that is stored chooses it. */
  readonly team?: ServedTeam | undefined;
  /** What is said about where the storage is. */
  readonly label?: string | undefined;
  /** What `--storage` of the command line takes, without a password: commands that the studio shows name it. Default: they go through this server (`--remote`). */
  readonly address?: string | undefined;
  /** The folder of the studio's files; default: that of this package, if it is there. `false`: none. */
  readonly studio?: string | false | undefined;
  /** Answers models at `/mcp`, behind the same checks: the `fetch` of `createMcp` in `savestate/mcp`. */
  readonly mcp?: ((request: Request) => Promise<Response>) | undefined;
  /** The largest body; default 16 MiB. Imports may have 1 GiB. */
  readonly maxBodyBytes?: number | undefined;
  /** How long a request may take; default 30 s. Checks, imports and the like may take 20 times as long. */
  readonly timeoutMs?: number | undefined;
  /** Gets what failed inside; default: a process warning. */
  readonly onError?: ((error: unknown) => void) | undefined;
};

const textOrFalse = accepts('a string, or false', (value) => value === false || typeof value === 'string');

/** As a request names it, without the port. */
const HOST = accepts('a host name without scheme and port, such as "agents.example"', (value) => {
  return typeof value === 'string' && /^([^\s/:]+|\[[\da-f:.]+\])$/i.test(value);
});

const CHECKS: OptionChecks<ServerOptions> = {
  token: textOrFalse,
  readOnly: flag,
  hosts: listOf(HOST),
  origins: listOf(filledString),
  memory: having('search', 'why'),
  team: having('run'),
  label: string,
  address: string,
  studio: textOrFalse,
  mcp: callback,
  maxBodyBytes: wholeFrom(1),
  timeoutMs: wholeFrom(1),
  onError: callback,
};

/** Accepts the options of a server, or throws an InvalidInputError. */
export function checkServerOptions(options: ServerOptions): void {
  checkOptions(options, CHECKS, 'createServer()');
}
