import { existsSync, type Stats, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';

/** A file or folder. The folder around one that a configuration names is made; one that is typed may be mistyped. */
type StoragePath = { readonly path: string; readonly isConfigured?: boolean };

/** Where checkpoints are. */
export type StorageAddress =
  | { readonly kind: 'memory' }
  | ({ readonly kind: 'sqlite' | 'file' } & StoragePath)
  | { readonly kind: 'postgres'; readonly url: string; readonly tenant: string; readonly schema: string | undefined };

type AddressDefaults = {
  readonly folder: string;
  readonly tenant?: string | undefined;
  readonly schema?: string | undefined;
};

const DEFAULT_TENANT = 'default';

/**
 * Reads an address: `memory:`, `sqlite:path`, `file:folder`, `postgres://...`, or a path that is looked at to see what it is. Refuses what
 * reads like something else than a path, and would become a file of that name.
 */
export function parseStorageAddress(text: string, defaults: AddressDefaults): StorageAddress {
  if (/\p{Cc}/u.test(text))
    throw new InvalidInputError(
      `A storage address has no control characters; found ${JSON.stringify(hidePassword(text))}.`,
    );
  if (/^postgres(ql)?:\/\//i.test(text)) return parsePostgres(text, defaults);
  if (/^:?memory:$/i.test(text)) return { kind: 'memory' };
  const { scheme, written } = splitScheme(text);
  checkPath(text, written, scheme);
  const path = resolve(defaults.folder, written);
  return { kind: scheme ?? guessKind(path, text), path };
}

function splitScheme(text: string): { scheme: 'sqlite' | 'file' | undefined; written: string } {
  const [, name, rest = text] = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(text) ?? [];
  const scheme = name?.toLowerCase();
  if (scheme !== undefined && scheme !== 'sqlite' && scheme !== 'file') throw refusal(text, 'begins with no storage');
  return { scheme, written: rest.replace(/^\/\/(?=\/)/, '') };
}

/** Refuses paths that are meant as something else. */
function checkPath(text: string, path: string, scheme: string | undefined): void {
  if (path === '' || path === '//') throw refusal(text, 'has no path');
  if (/^(memory|sqlite|file|postgres|postgresql)$/i.test(text))
    throw refusal(text, `is a kind of storage without a place; a file of this name is ./${text}`);
  if (scheme !== undefined && path.startsWith('//'))
    throw refusal(
      text,
      `has a server's name; use ${scheme}:${hidePassword(path.slice(2))}, or ${scheme}:/${hidePassword(path)} from the root`,
    );
  if (/\?[\w-]+=/.test(path))
    throw refusal(text, 'has options; pass them to open() or to the constructor of the storage');
  if (/^~[^/\\]*([/\\]|$)/.test(path))
    throw refusal(text, `begins with "~", which only shells expand; write the whole path, or ./${path}`);
}

function refusal(text: string, problem: string): InvalidInputError {
  return new InvalidInputError(
    `The storage address ${JSON.stringify(hidePassword(text))} ${problem}. Addresses are sqlite:<file>, file:<folder>, postgres://<server>/<database>, memory: (gone when the process ends), and paths.`,
  );
}

/**
 * An address that could not be read, without what may be secret: all from the first colon behind the scheme to the last `@`, and the values
 * behind `?` and `#`, where tokens are.
 */
function hidePassword(text: string): string {
  const named = text.replace(/^((?:[a-z][a-z0-9+.-]*:\/+)?[^:]*:).*(?=@)/is, '$1***');
  return named.replaceAll(/([?#&][^=?#&]*=)[^?#&]*/g, '$1***');
}

function parsePostgres(text: string, { tenant, schema }: AddressDefaults): StorageAddress {
  const url = parseUrl(text);
  const found = { tenant: url.searchParams.get('tenant'), schema: url.searchParams.get('schema') };
  // They are ours, and not the server's.
  url.searchParams.delete('tenant');
  url.searchParams.delete('schema');
  return {
    kind: 'postgres',
    url: url.href,
    tenant: tenant ?? found.tenant ?? DEFAULT_TENANT,
    schema: schema ?? found.schema ?? undefined,
  };
}

function parseUrl(text: string): URL {
  try {
    return new URL(text);
  } catch {
    // Without its cause, which repeats the address and its password.
    throw new InvalidInputError('The address of the PostgreSQL server cannot be read.');
  }
}

/** A folder is a file storage, a SQLite file a database. What does not exist yet is told by how it is written. */
function guessKind(path: string, text: string): 'sqlite' | 'file' {
  const found = lookAt(path);
  if (found?.isDirectory() === true) return 'file';
  if (!text.endsWith('/')) return 'sqlite';
  if (found !== undefined) throw refusal(text, 'ends with "/", which means a folder, and is a file');
  return 'file';
}

/** What is at a path. Nothing is below a file; what may not be looked at is said when it is opened. */
function lookAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Whether there is something at the address. A server is asked when it is opened; an empty file is no storage yet. */
export function storageExists(address: StorageAddress): boolean {
  if (address.kind === 'postgres' || address.kind === 'memory') return true;
  if (address.kind === 'file') return existsSync(join(address.path, 'format.json'));
  return existsSync(address.path) && !isEmptyFile(address.path);
}

/** Whether there is a file of no bytes, which SQLite takes for a new database. With a log beside it, it is a damaged one. */
export function isEmptyFile(path: string): boolean {
  const found = lookAt(path);
  return found?.isFile() === true && found.size === 0 && !lookAt(`${path}-wal`)?.size;
}

/** Whether two addresses name the same storage, also through links. */
export function isSameStorage(one: StorageAddress, other: StorageAddress): boolean {
  if (formatStorageAddress(one) === formatStorageAddress(other)) return true;
  const place = findPlace(one);
  return place !== undefined && place === findPlace(other);
}

/** Which file or folder it is, whatever its name. */
function findPlace(address: StorageAddress): string | undefined {
  const found = 'path' in address ? statSync(address.path, { throwIfNoEntry: false, bigint: true }) : undefined;
  return found && `${found.dev}:${found.ino}`;
}

/** An address as it may be shown and kept: without the password. */
export function formatStorageAddress(address: StorageAddress): string {
  if (address.kind === 'memory') return 'memory:';
  if (address.kind !== 'postgres') return `${address.kind}:${address.path}`;
  const url = new URL(address.url);
  url.password = '';
  url.searchParams.set('tenant', address.tenant);
  if (address.schema !== undefined) url.searchParams.set('schema', address.schema);
  return url.href;
}
