import { useEffect, useSyncExternalStore } from 'react';
import type { Key, ReplyOf, RequestArguments } from '../../server/client/types.ts';
import { type Asked, NOTHING, replies, server } from './server.ts';

/** What a route returns; asked once, and again when a save may have changed it. */
export function useReply<K extends Key>(key: K, ...request: RequestArguments<K>): Asked<ReplyOf<K>> {
  const url = server.urlOf(key, ...request);
  const asked = useSyncExternalStore(
    (tell) => replies.watch(url, tell),
    () => replies.get(url),
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the address stands for the request
  useEffect(() => void replies.load(url, key, request), [url]);
  return asked as Asked<ReplyOf<K>>;
}

/** The same, for what is not always needed: `undefined` asks nothing. */
export function useReplyIf<K extends Key>(key: K, request: RequestArguments<K>[0] | undefined): Asked<ReplyOf<K>> {
  const given = request === undefined ? undefined : ([request] as unknown as RequestArguments<K>);
  const url = given === undefined ? '' : server.urlOf(key, ...given);
  const asked = useSyncExternalStore(
    (tell) => replies.watch(url, tell),
    () => (given === undefined ? NOTHING : replies.get(url)),
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the address stands for the request
  useEffect(() => void (given !== undefined && replies.load(url, key, given)), [url]);
  return asked as Asked<ReplyOf<K>>;
}
