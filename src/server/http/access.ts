import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { withoutTokens } from '../../core/secret/scan/redaction-scan.ts';
import { HttpError } from './problem.ts';

/** Who may ask. */
export type AccessOptions = {
  /** Absent: no token is asked for. */
  readonly token: string | undefined;
  /** Names, besides those of this machine, under which the server is reached. */
  readonly hosts: readonly string[];
  /** Pages of these origins may ask, too, with the token in a header. */
  readonly origins: readonly string[];
};

const TOKEN_BYTES = 24;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** A token that cannot be guessed. */
export function createToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/** Whether an address is one that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.has(host) || host === '::1' || /^127(\.\d+){3}$/.test(host);
}

/** Decides which requests are let in. Every check stands alone: none relies on another. */
export class Access {
  readonly #options: AccessOptions;
  /** The cookie holds this instead of the token: who sees it cannot make others from it. */
  readonly #cookie: { readonly name: string; readonly value: string } | undefined;
  #takesAddresses = false;

  constructor(options: AccessOptions) {
    const { token } = options;
    this.#options = options;
    // Cookies of one host are shared by all its ports: the name tells servers apart.
    if (token !== undefined)
      this.#cookie = { name: `savestate_${digest(token).slice(0, 8)}`, value: digest(`cookie ${token}`) };
  }

  /** From now on other machines come by the addresses of this one; unlike names, those cannot be made to lead elsewhere. */
  takeAddresses(): void {
    this.#takesAddresses = true;
  }

  /** Throws unless the Host header names this server: a foreign name that leads here is an attack (DNS rebinding). */
  checkHost(request: Request): void {
    const host = hostOf(request);
    const name = host.replace(/:\d+$/, '').toLowerCase();
    if (LOOPBACK.has(name) || this.#options.hosts.includes(name)) return;
    if (this.#takesAddresses && isIP(name.replace(/^\[|\]$/g, '')) !== 0) return;
    throw new HttpError(421, 'ACCESS_DENIED', {
      message: `This server does not answer for the host "${host.slice(0, 100)}". Name it with --allow-host if it is yours.`,
    });
  }

  /** Throws if a page of another site asks. */
  checkOrigin(request: Request): void {
    const origin = request.headers.get('origin');
    if (origin !== null && this.isAllowedOrigin(origin)) return;
    const site = request.headers.get('sec-fetch-site');
    const isOwn = origin === null || originHost(origin) === hostOf(request);
    if (isOwn && (site === null || site === 'same-origin' || site === 'none')) return;
    throw new HttpError(403, 'ACCESS_DENIED', { message: 'Pages of other sites may not ask this server.' });
  }

  isAllowedOrigin(origin: string): boolean {
    return this.#options.origins.includes(origin);
  }

  /** Throws unless the request has the token: as a bearer, or by the cookie. */
  checkToken(request: Request): void {
    const { token } = this.#options;
    if (token === undefined || this.#cookie === undefined) return;
    const [, bearer] = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
    if (bearer !== undefined && isSame(bearer, token)) return;
    const given = readCookie(request, this.#cookie.name);
    if (given !== undefined && isSame(given, this.#cookie.value)) return;
    throw new HttpError(401, 'ACCESS_DENIED', {
      message:
        'The token is missing or not that of this server. Open the address that the server printed at its start; a script sends the token behind its # as "Authorization: Bearer <token>".',
    });
  }

  /** A text without this server's token, and without any other that can be told. */
  withoutToken(text: string): string {
    const { token } = this.#options;
    return withoutTokens(token === undefined ? text : text.replaceAll(token, '[secret token]'));
  }

  /** The cookie for a token; throws if that is not ours. */
  takeToken(given: string, isSecure: boolean): string | undefined {
    const { token } = this.#options;
    if (token === undefined || this.#cookie === undefined) return undefined;
    if (!isSame(given, token))
      throw new HttpError(401, 'ACCESS_DENIED', { message: 'This is not the token of this server.' });
    const { name, value } = this.#cookie;
    return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }
}

function hostOf(request: Request): string {
  return request.headers.get('host') ?? new URL(request.url).host;
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function readCookie(request: Request, name: string): string | undefined {
  const cookies = (request.headers.get('cookie') ?? '').split(/; */);
  return cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Takes the same time whatever is given. */
function isSame(given: string, wanted: string): boolean {
  return timingSafeEqual(createHash('sha256').update(given).digest(), createHash('sha256').update(wanted).digest());
}
