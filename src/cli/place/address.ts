import { resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import {
  formatStorageAddress,
  isSameStorage,
  parseStorageAddress,
  type StorageAddress,
  storageExists,
} from '../../storage/open/address.ts';
import { readText } from './read-text.ts';

/** A server that has the storage, and what opens it. */
export type RemoteAddress = {
  readonly kind: 'remote';
  readonly url: string;
  readonly token: string | undefined;
  /** The file that names the server, if a token is there that nobody meant for it. */
  readonly withheldFrom?: string;
};

/** Where checkpoints are: at hand, or at a server. `withheldFrom` is as above, of a password. */
export type Address = (StorageAddress & { readonly withheldFrom?: string }) | RemoteAddress;

type Defaults = Parameters<typeof parseStorageAddress>[1] & {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly tokenFile?: string | undefined;
  /** The file of the folder that has the address: whoever wrote it gets no token or password of the environment. */
  readonly writtenIn?: string | undefined;
};

/** Reads an address: one of a server, or that of a storage. */
export function parseAddress(text: string, defaults: Defaults): Address {
  return isRemote(text) ? parseRemote(text, defaults) : withholding(parseStorageAddress(text, defaults), defaults);
}

/** The address, marked if a password is there that nobody meant for it. */
export function withholding(address: StorageAddress, { env, writtenIn }: Pick<Defaults, 'env' | 'writtenIn'>): Address {
  const withheldFrom = address.kind === 'postgres' ? findWithheld({ url: address.url, env, writtenIn }) : undefined;
  return withheldFrom === undefined ? address : { ...address, withheldFrom };
}

/** Whether a text is the address of a server. */
export function isRemote(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/** No error here shows the text: it may hold the token. */
function parseRemote(text: string, defaults: Defaults): RemoteAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const found = /^(?:#token=(.+))?$/.exec(url?.hash ?? '?');
  if (url === undefined || found === null || `${url.username}${url.password}${url.search}` !== '')
    throw new InvalidInputError(
      'The address of a server is http://<host>:<port>, or https://; behind it only #token=<token> may stand, as "savestate serve" prints it.',
    );
  return {
    kind: 'remote',
    url: `${url.origin}${url.pathname.replace(/\/+$/, '')}`,
    ...(found[1] === undefined ? findToken(defaults) : { token: found[1] }),
  };
}

function findToken({ env, folder, tokenFile, writtenIn }: Defaults): Pick<RemoteAddress, 'token' | 'withheldFrom'> {
  const kept = tokenFile === undefined ? env.SAVESTATE_TOKEN : readText(resolve(folder, tokenFile), 'token file');
  const token = kept?.trim() || undefined;
  const isWithheld = token !== undefined && writtenIn !== undefined && tokenFile === undefined;
  return isWithheld ? { token: undefined, withheldFrom: writtenIn } : { token };
}

/** An address as it may be shown and kept: without password and token. */
export function formatAddress(address: Address): string {
  return address.kind === 'remote' ? address.url : formatStorageAddress(address);
}

/** Throws if two addresses name the same storage. */
export function checkApart(from: Address, to: Address): void {
  const isSame =
    from.kind === 'remote' || to.kind === 'remote'
      ? formatAddress(from) === formatAddress(to)
      : isSameStorage(from, to);
  if (isSame) throw new InvalidInputError('The two storages are the same one.');
}

/** Whether there is something at the address. Servers are asked when they are opened. */
export function addressExists(address: Address): boolean {
  return address.kind === 'remote' || storageExists(address);
}

/** Opens what is there, for a person who waits. */
export async function openAddress(
  address: Address,
  options: { readonly create?: boolean; readonly near?: string } = {},
): Promise<ChunkStorage> {
  if (address.kind === 'remote') return (await import('./remote.ts')).openRemote(address);
  if (address.withheldFrom !== undefined) throw withheldError(address.withheldFrom, formatAddress(address));
  const { openStorage } = await import('../../storage/open/open.ts');
  return openStorage(address, { ...options, isInteractive: true });
}

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
