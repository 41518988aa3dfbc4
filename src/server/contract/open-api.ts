import { z } from 'zod';
import { ERROR_OUTCOMES } from '../../core/error-outcomes.ts';
import { errorsOf, type Fields, type Route, splitKey } from './route.ts';
import { ROUTES } from './routes.ts';

const PROBLEM = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  code: z.string(),
  detail: z.string(),
  details: z.record(z.string(), z.unknown()),
});

const ALWAYS = ['INVALID_INPUT', 'STORAGE', 'CLOSED'] as const;

/** The table of routes as an OpenAPI 3.1 document. */
export function toOpenApi(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [key, route] of Object.entries(ROUTES) as [string, Route][]) {
    const { method, path } = splitKey(key);
    paths[path] = { ...paths[path], [method.toLowerCase()]: toOperation(key, route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Savestate', version, license: { name: 'MIT', identifier: 'MIT' } },
    paths,
    components: {
      schemas: { Problem: toSchema(PROBLEM, 'output') },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
    security: [{ token: [] }],
  };
}

function toOperation(key: string, route: Route) {
  const { method } = splitKey(key);
  const isChange = method !== 'GET' && route.isReading !== true;
  const headers = isChange ? ['If-Match', 'Idempotency-Key'] : [];
  const parameters = [
    ...toParameters('path', route.params ?? {}),
    ...toParameters('query', route.query ?? {}),
    ...headers.map((name) => ({ name, in: 'header', required: false, schema: { type: 'string' } })),
  ];
  const body = bodyOf(route);
  return {
    operationId: key.replaceAll(/[^A-Za-z0-9]+/g, '_').replace(/_$/, ''),
    summary: route.summary,
    parameters,
    ...(body !== undefined && { requestBody: { required: true, content: body } }),
    responses: { 200: { description: 'The reply', content: replyOf(route) }, ...problemsOf(route, isChange) },
  };
}

function toParameters(place: 'path' | 'query', fields: Fields) {
  return Object.entries(fields).map(([name, schema]) => {
    const { description, ...json } = toSchema(schema, 'input') as { description?: string };
    const required = place === 'path' || !schema.safeParse(undefined).success;
    return { name, in: place, required, ...(description !== undefined && { description }), schema: json };
  });
}

function bodyOf({ body, takes }: Route) {
  if (takes === 'lines') return { 'application/x-ndjson': { schema: { type: 'string' } } };
  return body === undefined ? undefined : { 'application/json': { schema: toSchema(body, 'input') } };
}

function replyOf({ reply }: Route) {
  if (reply === 'lines') return { 'application/x-ndjson': { schema: { type: 'string' } } };
  if (reply === 'events') return { 'text/event-stream': { schema: { type: 'string' } } };
  return { 'application/json': { schema: toSchema(reply, 'output') } };
}

function problemsOf(route: Route, isChange: boolean) {
  const codes = [...ALWAYS, ...errorsOf(route)];
  const statuses = [401, 403, ...(isChange ? [412] : []), ...codes.map((code) => ERROR_OUTCOMES[code].httpStatus)];
  const content = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
  const described = [...new Set(statuses)].map((status) => {
    const names = codes.filter((code) => ERROR_OUTCOMES[code].httpStatus === status);
    return [status, { description: names.join(', ') || 'ACCESS_DENIED, READ_ONLY or CONFLICT', content }];
  });
  return Object.fromEntries(described) as Record<string, unknown>;
}

function toSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
}
