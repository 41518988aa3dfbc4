import { useRef, useState } from 'react';
import type { Asked, Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import type { ShownMessage } from './messages-tab.tsx';

type Page = Reply<'GET /v1/checkpoints/{checkpoint}/messages'>;

/** The end is read after every save. */
const END = 50;
/** At most two pages are on a screen. */
const PAGE = 100;

/** The messages of a state by their index: the end first, then what is wanted. While another state is read, the last one stays. */
export function useMessages(source: string): {
  /** How many there are; undefined while that is not known. */
  readonly total: number | undefined;
  readonly error: Error | undefined;
  readonly get: (index: number) => ShownMessage | undefined;
  /** Which ones are on the screen. */
  readonly want: (first: number, last: number) => void;
} {
  const [range, setRange] = useState<readonly [first: number, last: number]>([0, 0]);
  const latest = useRef<{ total: number | undefined; items: Map<number, ShownMessage> }>({
    total: undefined,
    items: new Map(),
  });
  const end = usePage(source, { limit: END, last: true as never });
  const begin = end.value === undefined ? undefined : end.value.total - end.value.items.length;
  const pageOf = (index: number) => (begin === undefined || index >= begin ? undefined : index - (index % PAGE));
  const [from, to] = [pageOf(range[0]), pageOf(range[1])];
  const pages = [end, usePage(source, queryOf(from)), usePage(source, to === from ? undefined : queryOf(to))];
  const isGone = end.value === undefined && end.error !== undefined;
  if (isGone || (end.value !== undefined && end.value.total < (latest.current.total ?? 0)))
    latest.current.items.clear();
  latest.current.total = isGone ? undefined : (end.value?.total ?? latest.current.total);
  for (const { value } of pages) for (const item of value?.items ?? []) latest.current.items.set(item.index, item);
  return {
    total: latest.current.total,
    error: pages.map(({ error }) => error).find((error) => error !== undefined),
    get: (index) => latest.current.items.get(index),
    want: (first, last) => {
      if (first !== range[0] || last !== range[1]) setRange([first, last]);
    },
  };
}

type Query = { readonly limit: number; readonly last?: never; readonly cursor?: string };

function queryOf(from: number | undefined): Query | undefined {
  return from === undefined ? undefined : { limit: PAGE, cursor: String(from) };
}

function usePage(checkpoint: string, query: Query | undefined): Asked<Page> {
  return useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/messages',
    query === undefined ? undefined : { params: { checkpoint }, query },
  );
}
