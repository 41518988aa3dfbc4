import { createHmac, hash } from 'node:crypto';

/** What opens a bucket. `sessionToken` comes with temporary ones. */
export type S3Credentials = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
};

type SignedRequest = {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
};

type Signing = { readonly region: string; readonly credentials: S3Credentials; readonly date: Date };

/** Signs a request by AWS Signature Version 4. Returns all headers to send; `host` is sent by fetch. */
export function signRequest(
  { method, url, headers, body = new Uint8Array() }: SignedRequest,
  { region, credentials, date }: Signing,
): Record<string, string> {
  const time = date.toISOString().replace(/[-:]|\.\d{3}/g, '');
  const sent: Record<string, string> = {
    ...headers,
    'x-amz-content-sha256': hash('sha256', body),
    'x-amz-date': time,
    ...(credentials.sessionToken !== undefined && { 'x-amz-security-token': credentials.sessionToken }),
  };
  const signed = Object.entries({ ...sent, host: url.host }).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    method,
    url.pathname
      .split('/')
      .map((part) => encode(decodeURIComponent(part)))
      .join('/'),
    canonicalQuery(url),
    ...signed.map(([name, value]) => `${name}:${value.trim()}`),
    '',
    names,
    sent['x-amz-content-sha256'],
  ].join('\n');
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash('sha256', canonical)}`;
  const key = scope.split('/').reduce<string | Buffer>(sign, `AWS4${credentials.secretAccessKey}`);
  const signature = sign(key, text).toString('hex');
  const authorization = `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope},SignedHeaders=${names},Signature=${signature}`;
  return { ...sent, authorization };
}

function sign(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function canonicalQuery({ searchParams }: URL): string {
  return [...searchParams]
    .map(([key, value]) => `${encode(key)}=${encode(value)}`)
    .sort()
    .join('&');
}

/** As RFC 3986 says, which encodes more than `encodeURIComponent`. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
}
