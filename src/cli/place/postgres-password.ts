import { InvalidInputError } from '../../core/errors.ts';

type Env = Readonly<Record<string, string | undefined>>;

const THIS_MACHINE: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);
const DEFAULT_PORT = '5432';

/** An address, the variables that hold here, and the file of the folder that has the address, if nobody else named it. */
type Written = { readonly url: string; readonly env: Env; readonly writtenIn: string | undefined };

/** The file, if PGPASSWORD would go to a server that only it names: whoever wrote it would get the password. */
export function findWithheld({ url: text, env, writtenIn }: Written): string | undefined {
  if (!env.PGPASSWORD || Object.values(env).includes(text)) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && (url.password !== '' || isMeant(url, env)) ? undefined : writtenIn;
}

/** Whether PGHOST and PGPORT name this server, or, without them, it is the one of this machine: that is whose password it is. */
function isMeant({ hostname, port, searchParams }: URL, { PGHOST, PGPORT }: Env): boolean {
  if (searchParams.has('host') || searchParams.has('port')) return false; // they would count instead
  const isHost = PGHOST ? hostname === PGHOST : THIS_MACHINE.has(hostname);
  return hostname === '' || (isHost && (port || DEFAULT_PORT) === (PGPORT || DEFAULT_PORT));
}

/** Says why the server is not asked, and what to do. */
export function withheldError(path: string, shown: string): InvalidInputError {
  return new InvalidInputError(
    `${path} names the PostgreSQL server ${shown}. PGPASSWORD is sent only to a server that you name yourself: if you trust this one, set PGHOST and PGPORT to its host and port, or name the whole address in an option or a variable (--storage, SAVESTATE_STORAGE, --memory, SAVESTATE_MEMORY).`,
    { details: { path, storage: shown } },
  );
}
