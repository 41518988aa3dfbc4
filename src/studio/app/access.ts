import { live } from '../data/live.ts';
import { ask } from '../data/server.ts';

/** Swaps the token in the fragment of the address for a cookie, and takes it out of the address. */
export async function openAccess(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token === null) return;
  history.replaceState(null, '', `${location.pathname}${location.search}`);
  await ask('POST /v1/access', { body: { token } }).catch(() => undefined); // what is asked next says that it was refused
}

/** Lets an open page in again, by the address that a server printed, or by the token alone. Throws if that is not its token. */
export async function renewAccess(addressOrToken: string): Promise<void> {
  const token = /#token=(.*)$/.exec(addressOrToken)?.[1] ?? addressOrToken;
  await ask('POST /v1/access', { body: { token: token.trim() } });
  live.retry();
}
