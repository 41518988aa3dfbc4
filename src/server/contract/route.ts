import type { z } from 'zod';

/** The fields of the path or the query of a route. All of them travel as strings. */
export type Fields = Readonly<Record<string, z.ZodType>>;

/** How long a reply may be kept: `immutable` if what is addressed never changes, `tagged` if its ETag tells whether it did. */
export type Caching = 'none' | 'tagged' | 'immutable';

/** One row of the table of routes: all that can be asked, and all that can be answered. */
export type Route = {
  readonly summary: string;
  readonly params?: Fields;
  readonly query?: Fields;
  readonly body?: z.ZodType;
  /** JSON; `lines` and `events` are streams of text. */
  readonly reply: z.ZodType | 'lines' | 'events';
  /** So many values a body has at most: each costs much more than its bytes. */
  readonly maxValues?: number;
  /** The body is a stream of text, as `lines` returns it. */
  readonly takes?: 'lines';
  readonly caching?: Caching;
  /** Changes nothing, though it is no GET: allowed when the server is read-only. */
  readonly isReading?: true;
  /** What may go wrong besides INVALID_INPUT, STORAGE and CLOSED; default: NOT_FOUND and CORRUPT, as for whatever looks at what is stored. */
  readonly errors?: readonly ('NOT_FOUND' | 'CONFLICT' | 'CORRUPT' | 'UNSUPPORTED')[];
};

/** The table: `GET /v1/sessions/{session}` → what it takes and returns. */
export type RouteTable = Readonly<Record<string, Route>>;

/** Cuts the key of a route in two. */
export function splitKey(key: string): { readonly method: string; readonly path: string } {
  const at = key.indexOf(' ');
  return { method: key.slice(0, at), path: key.slice(at + 1) };
}

/** What may go wrong with a route, besides what always may. */
export function errorsOf({ errors = ['NOT_FOUND', 'CORRUPT'] }: Route): NonNullable<Route['errors']> {
  return errors;
}
