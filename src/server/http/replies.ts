import { isCheckpointId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { Route } from '../contract/route.ts';

/** Sent with everything: content is never run, framed, guessed at or told to others. */
export const SAFE_HEADERS: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

/** How long a browser does not even ask again for what cannot change. Short: what is deleted should be gone from screens, too. */
const MAX_AGE_S = 300;

/** The query and path parameters that name checkpoints. */
const ID_FIELDS = ['checkpoint', 'before', 'after', 'ids'];

/** Whether a request asks for something that can never be another: all its checkpoints are named by whole ids. */
export function isImmutable({ caching }: Route, given: Readonly<Record<string, unknown>>): boolean {
  const ids = ID_FIELDS.flatMap((field) => given[field] ?? []).map(String);
  return caching === 'immutable' && ids.length > 0 && ids.every(isCheckpointId);
}

/** Whether a header lists a tag. A weak one means the same here: compressing makes tags weak on the way. */
export function listsTag(header: string | null, tag: string): boolean {
  return header?.split(',').some((each) => each.trim().replace(/^W\//, '') === tag) === true;
}

type Form = { readonly isTagged: boolean; readonly isForever: boolean; readonly etag?: string | undefined };

/** A reply as JSON, or 304 if the client has it. */
export function toReply(request: Request, reply: unknown, { isTagged, isForever, etag }: Form): Response {
  const text = JSON.stringify(reply);
  const tag = etag ?? (isTagged ? `"${digestText(text).slice(0, 32)}"` : undefined);
  const kept = isForever ? `private, max-age=${MAX_AGE_S}, immutable` : 'private, no-cache';
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'cache-control': isTagged ? kept : 'no-store',
    ...(tag !== undefined && { etag: tag }),
  };
  const isKnown = tag !== undefined && listsTag(request.headers.get('if-none-match'), tag);
  return isKnown ? new Response(null, { status: 304, headers }) : new Response(text, { headers });
}
