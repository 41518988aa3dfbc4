import type { z } from 'zod';
import type { Fields } from '../contract/route.ts';
import type { Routes } from '../contract/routes.ts';

/** A route by its key: `GET /v1/sessions/{session}`. */
export type Key = keyof Routes;

type Simplify<Type> = { [Field in keyof Type]: Type[Field] };
type OptionalFields<Type> = { [Field in keyof Type as undefined extends Type[Field] ? Field : never]?: Type[Field] };
type NeededFields<Type> = { [Field in keyof Type as undefined extends Type[Field] ? never : Field]: Type[Field] };
type Values<Given extends Fields> = { [Field in keyof Given]: z.output<Given[Field]> };

/** What goes into the query: real numbers, flags and lists; the client writes them as text. */
type QueryOf<Given extends Fields> = Simplify<OptionalFields<Values<Given>> & NeededFields<Values<Given>>>;

type ParamsPart<Row> = Row extends { readonly params: infer Given extends Fields }
  ? { readonly params: { readonly [Field in keyof Given]: string | number } }
  : unknown;
type QueryPart<Row> = Row extends { readonly query: infer Given extends Fields }
  ? Record<never, never> extends QueryOf<Given>
    ? { readonly query?: QueryOf<Given> }
    : { readonly query: QueryOf<Given> }
  : unknown;
type BodyPart<Row> = Row extends { readonly body: infer Body extends z.ZodType }
  ? { readonly body: z.input<Body> }
  : Row extends { readonly takes: 'lines' }
    ? { readonly body: string | ReadableStream<Uint8Array> }
    : unknown;

/** What accompanies a request, whatever it asks for. */
export type RequestOptions = {
  readonly signal?: AbortSignal;
  /** Of a change: only if the session still has this ETag, or it fails with status 412. */
  readonly ifMatch?: string;
  /** Of a change: the same key is done once, however often it is sent. */
  readonly idempotencyKey?: string;
};

/** What a route takes. */
export type RequestOf<K extends Key> = Simplify<
  ParamsPart<Routes[K]> & QueryPart<Routes[K]> & BodyPart<Routes[K]> & RequestOptions
>;

/** What a route returns. */
export type ReplyOf<K extends Key> = Routes[K] extends { readonly reply: infer Reply extends z.ZodType }
  ? z.output<Reply>
  : Response;

/** The last argument of a request may be left out where nothing must be given. */
export type RequestArguments<K extends Key> =
  Record<never, never> extends RequestOf<K> ? [request?: RequestOf<K>] : [request: RequestOf<K>];
