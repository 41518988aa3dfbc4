import { Hono } from 'hono';
import { compress } from 'hono/compress';
import type { Route } from '../contract/route.ts';
import { splitKey } from '../contract/route.ts';
import { ROUTES } from '../contract/routes.ts';
import type { Access } from './access.ts';
import { readJson } from './body.ts';
import { checkInput } from './checked-input.ts';
import { Deadline } from './deadline.ts';
import type { Dispatcher } from './dispatch.ts';
import { HttpError, toProblem } from './problem.ts';
import { SAFE_HEADERS } from './replies.ts';

/** What an app is put together from. */
export type AppParts = {
  readonly access: Access;
  readonly dispatcher: Dispatcher;
  /** How long the token may be on its way. */
  readonly timeoutMs: number;
  readonly onError: (error: unknown) => void;
  readonly events: (request: Request) => Response | Promise<Response>;
  /** Hears that something was changed through this server. */
  readonly onChange: () => void;
  /** Answers what is no route: the files of the studio. */
  readonly files: (request: Request) => Promise<Response | undefined>;
  readonly openApi: () => unknown;
  /** Answers models. */
  readonly mcp: ((request: Request) => Promise<Response>) | undefined;
};

const MAX_TOKEN_BYTES = 10_000;

/** Puts guards, routes and files together. The guards come first, whatever is asked for. */
export function createApp(parts: AppParts): Hono {
  const { access, dispatcher, mcp } = parts;
  const app = new Hono();
  app.onError((error) => {
    const response = toProblem(error, (text) => access.withoutToken(text));
    if (response.status >= 500 && response.status !== 501) parts.onError(error); // what is not supported is no fault
    return withHeaders(response);
  });
  app.use(async (c, next) => {
    access.checkHost(c.req.raw);
    await next();
    withHeaders(c.res);
    allowOrigin(access, c.req.raw, c.res);
  });
  for (const place of ['/v1/*', '/openapi.json', '/mcp'])
    app.use(place, async (c, next) => {
      access.checkOrigin(c.req.raw);
      if (c.req.method === 'OPTIONS') return c.body(null, 204);
      if (c.req.path !== '/v1/access') access.checkToken(c.req.raw);
      return next();
    });
  app.use('/v1/*', compress({ contentTypeFilter: /^application\/json/ }));
  app.get('/openapi.json', (c) => c.json(parts.openApi() as object));
  app.post('/v1/access', (c) => {
    const deadline = new Deadline(c.req.raw, parts.timeoutMs);
    return deadline.within(takeToken(c.req.raw, access, deadline));
  });
  if (mcp !== undefined) app.all('/mcp', (c) => mcp(c.req.raw));
  app.get('/v1/events', (c) => parts.events(c.req.raw));
  for (const [key, route] of Object.entries(ROUTES) as [string, Route][]) {
    const { method, path } = splitKey(key);
    app.on(method, path.replaceAll(/\{(\w+)\}/g, ':$1'), async (c) => {
      const response = await dispatcher.answer(key, route, c);
      if (method !== 'GET' && route.isReading !== true) parts.onChange();
      return response;
    });
  }
  app.all('*', async (c) => (await parts.files(c.req.raw)) ?? noSuch(c.req.method, c.req.path));
  return app;
}

function noSuch(method: string, path: string): never {
  throw new HttpError(404, 'NOT_FOUND', { message: `There is no ${method} ${path.slice(0, 200)}. See /openapi.json.` });
}

function withHeaders(response: Response): Response {
  for (const [name, value] of Object.entries(SAFE_HEADERS))
    if (!response.headers.has(name)) response.headers.set(name, value);
  return response;
}

const CORS_HEADERS = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE',
  'access-control-allow-headers':
    'authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id',
  'access-control-expose-headers': 'etag',
};

/** Only origins that were named hear of CORS at all. */
function allowOrigin(access: Access, request: Request, { headers }: Response): void {
  const origin = request.headers.get('origin');
  if (origin === null || !access.isAllowedOrigin(origin)) return;
  headers.set('access-control-allow-origin', origin);
  headers.append('vary', 'Origin');
  headers.set('cross-origin-resource-policy', 'cross-origin');
  for (const [name, value] of Object.entries(CORS_HEADERS)) headers.set(name, value);
}

async function takeToken(request: Request, access: Access, { signal }: Deadline): Promise<Response> {
  const { token } = checkInput('POST /v1/access', ROUTES['POST /v1/access'], {
    params: {},
    search: new URLSearchParams(),
    body: await readJson(request, { maxBytes: MAX_TOKEN_BYTES, signal }),
  }).body as { readonly token: string };
  const cookie = access.takeToken(token, new URL(request.url).protocol === 'https:');
  return new Response(JSON.stringify({ isDone: true }), {
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(cookie !== undefined && { 'set-cookie': cookie }),
    },
  });
}
