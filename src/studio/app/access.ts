import { ask } from '../data/server.ts';

/** Swaps the token in the fragment of the address for a cookie, and takes it out of the address. */
export async function openAccess(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token === null) return;
  history.replaceState(null, '', `${location.pathname}${location.search}`);
  await ask('POST /v1/access', { body: { token } }).catch(() => undefined); // what is asked next says that it was refused
}
