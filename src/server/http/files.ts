import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize, sep } from 'node:path';
import { packageFolder } from './package-folder.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.json': 'application/json',
  '.map': 'application/json',
  '.woff2': 'font/woff2',
};

/** Where the page wants its nonce. */
const NONCE_MARK = '__CSP_NONCE__';
/** What a build names by its content. */
const HASHED = /[.-][\w-]{8,}\.\w+$/;

/** The folder of the studio in this package; undefined if it was not built. */
function findStudio(): string | undefined {
  const folder = join(packageFolder(), 'dist/studio');
  return existsSync(join(folder, 'index.html')) ? folder : undefined;
}

/** Serves the files of the studio; what is no file is the page itself, so that links into it work. */
export function createFiles(given: string | false | undefined): (request: Request) => Promise<Response | undefined> {
  const folder = given === false ? undefined : (given ?? findStudio());
  return async (request) => {
    const { pathname } = new URL(request.url);
    const isPage = request.method === 'GET' || request.method === 'HEAD';
    if (!isPage || pathname.startsWith('/v1/')) return undefined;
    if (folder === undefined) return pathname === '/' ? new Response(NO_STUDIO, { headers: PLAIN }) : undefined;
    const type = typeOf(pathname);
    if (type === undefined || type === TYPES['.html']) return sendPage(folder);
    const content = await readInside(folder, pathname);
    if (content === undefined) return undefined;
    const forever = HASHED.test(pathname) ? 'public, max-age=31536000, immutable' : 'no-cache';
    return new Response(new Uint8Array(content), { headers: { 'content-type': type, 'cache-control': forever } });
  };
}

/** Of a file; a session may have a name that looks like one. */
function typeOf(pathname: string): string | undefined {
  return pathname.startsWith('/s/') ? undefined : TYPES[extname(pathname)];
}

const PLAIN = { 'content-type': 'text/plain; charset=utf-8' };
const NO_STUDIO =
  'This is a savestate server. The studio is not part of this build; see /openapi.json for what can be asked.\n';

async function sendPage(folder: string): Promise<Response | undefined> {
  const page = await readInside(folder, '/index.html');
  if (page === undefined) return undefined;
  const nonce = randomBytes(16).toString('base64');
  return new Response(page.toString('utf8').replaceAll(NONCE_MARK, nonce), {
    headers: {
      'content-type': TYPES['.html'] ?? '',
      'cache-control': 'no-store',
      'content-security-policy': policyOf(nonce),
    },
  });
}

/** Only our own files run; whatever text a state holds, nothing of it can. */
function policyOf(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** A file of the folder; undefined if there is none, or the path leads out of it. */
async function readInside(folder: string, pathname: string): Promise<Buffer | undefined> {
  const path = normalize(join(folder, decode(pathname)));
  if (!path.startsWith(folder + sep)) return undefined;
  return readFile(path).catch(() => undefined); // a folder, or nothing
}

function decode(pathname: string): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return '/';
  }
}
