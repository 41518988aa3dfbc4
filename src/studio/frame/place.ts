import { useMemo, useSyncExternalStore } from 'react';
import { decodeSegment, encodeSegment } from '../../server/contract/segment.ts';

/** Where the page is: every part of what is shown is in the address. */
export type Address = { readonly path: readonly string[]; readonly query: URLSearchParams };

const watchers = new Set<() => void>();
const tellAll = () => {
  for (const tell of watchers) tell();
};
addEventListener('popstate', tellAll);

/** The place that is shown. */
export function usePlace(): Address {
  const address = useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => `${location.pathname}${location.search}`,
  );
  return useMemo(() => {
    const url = new URL(address, location.origin);
    return { path: url.pathname.split('/').filter(Boolean).map(decode), query: url.searchParams };
  }, [address]);
}

/** A part of an address that nobody encoded is what it is. */
function decode(part: string): string {
  try {
    return decodeSegment(decodeURIComponent(part));
  } catch {
    return part;
  }
}

/** Goes to an address of this page, unless it is there; `replace` for changes that "back" should not stop at. */
export function go(address: string, { replace = address === `${location.pathname}${location.search}` } = {}): void {
  if (replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  tellAll();
}

/** Changes parts of the query; `undefined` takes one away. */
export function setQuery(change: Readonly<Record<string, string | undefined>>, options?: { replace?: boolean }): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  go(`${url.pathname}${url.search}`, options);
}

/** The address of a session, or of something in it. */
export function sessionAddress(
  sessionId: string,
  { page = '', ...query }: { page?: string; [name: string]: string | undefined } = {},
): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const search = new URLSearchParams(given).toString();
  return `/s/${encodeSegment(sessionId)}${page === '' ? '' : `/${page}`}${search === '' ? '' : `?${search}`}`;
}
