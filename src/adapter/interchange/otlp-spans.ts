import { z } from 'zod';
import { parseJson, parseShape, refuse } from './document.ts';

export const FORMAT = 'OTLP JSON trace';
const MAX_SPANS = 200_000;

/** A span with its attributes as plain values. */
export type Span = {
  readonly traceId: string;
  readonly name: string;
  readonly startMs: number;
  readonly attributes: ReadonlyMap<string, unknown>;
  /** What a failed span says of itself. */
  readonly error: string | undefined;
};

const text = z.string();
const attributes = z.array(z.looseObject({ key: text, value: z.unknown() })).nullish();
const span = z.looseObject({
  traceId: text.min(1),
  name: text.default(''),
  startTimeUnixNano: z.union([text.regex(/^\d{1,20}$/), z.number().min(0).max(1e19)]),
  attributes,
  status: z.looseObject({ code: z.union([z.number(), text]).optional(), message: text.optional() }).nullish(),
});
const traces = z.looseObject({
  resourceSpans: z.array(
    z.looseObject({
      scopeSpans: z.array(z.looseObject({ spans: z.array(z.unknown()).nullish() })).nullish(),
    }),
  ),
});

/** Reads traces as the OTLP file exporter and OTLP/HTTP write them: one JSON text, or one a line. Spans come in the order of their starts. */
export function readSpans(document: string): Span[] {
  const parts = splitDocument(document).map((part) => parseShape(traces, parseJson(part, FORMAT), FORMAT));
  const scopes = parts.flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans ?? []));
  const found = scopes.flatMap(({ spans }) => spans ?? []);
  if (found.length === 0) throw refuse(FORMAT, 'it has no spans');
  if (found.length > MAX_SPANS) throw refuse(FORMAT, `it has more than ${MAX_SPANS} spans`);
  return found.map((each) => toSpan(parseShape(span, each, FORMAT))).sort((a, b) => a.startMs - b.startMs);
}

/** The JSON texts of a file: whole, or its lines if the first of them is one. */
function splitDocument(document: string): readonly string[] {
  const lines = document.split('\n').filter((line) => line.trim() !== '');
  return lines.length > 1 && lines[0]?.trimEnd().endsWith('}') === true ? lines : [document];
}

function toSpan({ traceId, name, startTimeUnixNano: start, attributes: given, status }: z.infer<typeof span>): Span {
  const isFailed = status?.code === 2 || status?.code === 'STATUS_CODE_ERROR';
  return {
    traceId,
    name,
    startMs: Number(BigInt(typeof start === 'number' ? Math.trunc(start) : start) / 1_000_000n),
    attributes: new Map((given ?? []).map(({ key, value }) => [key, plainValue(value)])),
    error: isFailed ? (status?.message ?? 'it failed') : undefined,
  };
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
