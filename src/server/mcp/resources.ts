import { NotFoundError } from '../../core/errors.ts';
import { formatPointer, type PathStep } from '../../core/path.ts';
import { parseStatePath } from '../../view/state-path.ts';
import type { Client } from '../client/client.ts';
import { bound } from './bound.ts';

/** The address of a checkpoint as a resource, or of a value in its state. */
export function formatAddress(session: string, checkpoint: string, path = '$'): string {
  const steps: readonly PathStep[] = parseStatePath(path);
  return `savestate://${[session, checkpoint, ...steps].map((part) => encodeURIComponent(part)).join('/')}`;
}

/** The path of a value, from what comes after the checkpoint in an address. */
export function parseAddressPath(text: string): string {
  return formatPointer(text.split('/').map((part) => decodeURIComponent(part)));
}

/** Which value is asked for. */
export type Asked = { readonly session: string; readonly checkpoint: string; readonly path?: string };

/** The most that is sent of a resource. */
const MAX_RESOURCE_BYTES = 1024 ** 2;
const LISTED_SESSIONS = 50;

/** The newest checkpoint of each session that was used last. */
export async function listHeads(client: Client) {
  const { items } = await client.request('GET /v1/sessions', { query: { limit: LISTED_SESSIONS } });
  return items.flatMap(({ id, headId, savedAt, status }) => {
    const description = `Saved ${savedAt}${status === undefined ? '' : `, ${status}`}`;
    return headId === undefined
      ? []
      : [{ uri: formatAddress(id, headId), name: id, description, mimeType: 'application/json' }];
  });
}

/** A checkpoint with its state, or a value of it. Of what is too large its parts are named, each with its address. */
export async function readResource(client: Client, { session, checkpoint: id, path }: Asked): Promise<string> {
  const params = { checkpoint: id };
  const checkpoint = await client.request('GET /v1/checkpoints/{checkpoint}', { params });
  if (checkpoint.sessionId !== session)
    throw new NotFoundError(`Checkpoint ${id} is not of the session "${session}", but of "${checkpoint.sessionId}".`);
  const query = path === undefined ? {} : { path };
  const { value } = await client.request('GET /v1/checkpoints/{checkpoint}/value', { params, query });
  const whole = bound(path === undefined ? { checkpoint, state: value } : value, MAX_RESOURCE_BYTES);
  if (!whole.isCut) return whole.text;
  const { parts, next } = await client.request('GET /v1/checkpoints/{checkpoint}/state', { params, query });
  if (parts.length === 0) return whole.text;
  const listed = parts.map(({ path: at, type, bytes }) => ({ uri: formatAddress(session, id, at), type, bytes }));
  const note = `Too large to send at once: read its parts.${next === undefined ? '' : ' The tool show lists the others.'}`;
  return bound({ ...(path === undefined && { checkpoint }), note, parts: listed }, MAX_RESOURCE_BYTES).text;
}
