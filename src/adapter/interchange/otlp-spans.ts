import { z } from 'zod';
import { parseJson, parseShape, refuse } from './document.ts';

export const FORMAT = 'OTLP JSON trace';
const MAX_SPANS = 200_000;

/** What is said of a span, of its service or of an event in it, as plain values. */
export type Attributes = ReadonlyMap<string, unknown>;

/** A span with its attributes as plain values. */
export type Span = {
  readonly traceId: string;
  readonly name: string;
  readonly startMs: number;
  readonly attributes: Attributes;
  readonly service: Attributes;
  readonly events: readonly { readonly name: string; readonly attributes: Attributes }[];
  /** The span that it is part of, if that is in the file. */
  readonly parent: Span | undefined;
  /** What a failed span says of itself. */
  readonly error: string | undefined;
};

const text = z.string();
const nanos = z.union([text.regex(/^\d{1,20}$/), z.number().min(0).max(1e19)]);
const attributes = z.array(z.looseObject({ key: text, value: z.unknown() })).nullish();
const span = z.looseObject({
  traceId: text.min(1),
  spanId: text.nullish(),
  parentSpanId: text.nullish(),
  name: text.default(''),
  startTimeUnixNano: nanos,
  endTimeUnixNano: nanos.nullish(),
  attributes,
  events: z.array(z.looseObject({ name: text.default(''), attributes })).nullish(),
  status: z.looseObject({ code: z.union([z.number(), text]).optional(), message: text.optional() }).nullish(),
});
const scopes = z.array(z.looseObject({ spans: z.array(z.unknown()).nullish() })).nullish();
const services = z.array(
  z.looseObject({
    resource: z.looseObject({ attributes }).nullish(),
    scopeSpans: scopes,
    instrumentationLibrarySpans: scopes,
  }),
);
const traces = z.looseObject({ resourceSpans: services.nullish(), batches: services.nullish() });

/**
 * Reads traces as the OTLP file exporter, OTLP/HTTP and the API of Tempo write them: one JSON text, or one a line, with the names of
 * JSON or of protobuf. Spans come in the order of their starts, each once.
 */
export function readSpans(document: string): Span[] {
  const found = splitDocument(document)
    .flatMap(readServices)
    .flatMap(({ resource, scopeSpans, instrumentationLibrarySpans }) => {
      const service = toAttributes(resource?.attributes);
      const spans = (scopeSpans ?? instrumentationLibrarySpans ?? []).flatMap((scope) => scope.spans ?? []);
      return spans.map((each) => ({ each, service }));
    });
  if (found.length === 0) throw refuse(FORMAT, 'it has no spans');
  if (found.length > MAX_SPANS) throw refuse(FORMAT, `it has more than ${MAX_SPANS} spans`);
  const known = new Map<string, Span>();
  const timed = found.flatMap(({ each, service }) => {
    const { spanId, startTimeUnixNano: start, endTimeUnixNano: end, ...rest } = parseShape(span, each, FORMAT);
    const key = spanKey(rest.traceId, spanId ?? '');
    if (spanId != null && known.has(key)) return [];
    const made = toSpan({ ...rest, startTimeUnixNano: start }, service, known);
    known.set(key, made);
    return [{ made, start: toNanos(start), end: toNanos(end ?? start) }];
  });
  return timed.sort((a, b) => compare(a.start, b.start) || compare(a.end, b.end)).map(({ made }) => made);
}

function readServices(part: string): z.infer<typeof services> {
  const parsed = withCamelCase(parseJson(part, FORMAT));
  return (Array.isArray(parsed) ? parsed : [parsed]).flatMap((each: { readonly trace?: unknown } | null) => {
    const { resourceSpans, batches } = parseShape(traces, each?.trace ?? each, FORMAT);
    return resourceSpans ?? batches ?? [];
  });
}

/** The JSON texts of a file: whole, or its lines if the first of them is one. */
function splitDocument(document: string): readonly string[] {
  const lines = document.split('\n').filter((line) => line.trim() !== '');
  return lines.length > 1 && lines[0]?.trimEnd().endsWith('}') === true ? lines : [document];
}

/** The fields of OTLP under their names in JSON; none of them is named by a user. */
function withCamelCase(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withCamelCase);
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      withCamelCase(field),
    ]),
  );
}

function toSpan(
  { traceId, parentSpanId, name, startTimeUnixNano, attributes: given, events, status }: z.infer<typeof span>,
  service: Attributes,
  known: ReadonlyMap<string, Span>,
): Span {
  const told = (events ?? []).map((event) => ({ name: event.name, attributes: toAttributes(event.attributes) }));
  const isFailed = status?.code === 2 || status?.code === 'STATUS_CODE_ERROR';
  const thrown = told.find((event) => event.name === 'exception')?.attributes.get('exception.message');
  return {
    traceId: toHex(traceId),
    name,
    startMs: Number(toNanos(startTimeUnixNano) / 1_000_000n),
    attributes: toAttributes(given),
    service,
    events: told,
    get parent() {
      return parentSpanId == null ? undefined : known.get(spanKey(traceId, parentSpanId));
    },
    error: isFailed ? status?.message || String(thrown ?? 'it failed') : undefined,
  };
}

function spanKey(traceId: string, spanId: string): string {
  return `${toHex(traceId)}/${toHex(spanId)}`;
}

/** An id in hex, as OTLP has it; what writes protobuf's own JSON has base64. */
function toHex(id: string): string {
  if (/^[\w+/]+={1,2}$/.test(id)) return Buffer.from(id, 'base64').toString('hex');
  return /^[\da-f]+$/i.test(id) ? id.toLowerCase() : id;
}

function toNanos(time: string | number): bigint {
  return BigInt(typeof time === 'number' ? Math.trunc(time) : time);
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function toAttributes(given: z.infer<typeof attributes>): Attributes {
  return new Map((given ?? []).map(({ key, value }) => [key, plainValue(value)]));
}

/** The value in an `AnyValue`; numbers of 64 bits are texts in OTLP. */
function plainValue(value: unknown): unknown {
  const [kind, held] = Object.entries((value ?? {}) as object)[0] ?? [];
  if (kind === 'intValue') return Number(held);
  const { values } = (held ?? {}) as { values?: unknown };
  if (kind === 'arrayValue') return (Array.isArray(values) ? values : []).map(plainValue);
  if (kind !== 'kvlistValue') return held ?? null;
  const fields = (Array.isArray(values) ? values : []) as { key?: unknown; value?: unknown }[];
  return Object.fromEntries(fields.map(({ key, value: field }) => [String(key), plainValue(field)]));
}
