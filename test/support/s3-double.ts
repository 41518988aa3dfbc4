import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export const S3_KEY = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'a secret/with+signs' };
const REGION = 'eu-test-1';
const PAGE = 3;

type Stored = { readonly bytes: Buffer; readonly at: Date };

/** A server that speaks as S3 does: checks signatures and conditions, and fails as it is told to. */
export async function startS3() {
  const objects = new Map<string, Stored>();
  const refused: string[] = [];
  /** Answers of the next requests: a status, or that the connection is cut after the work was done. */
  const faults: (number | 'cut')[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const problem = findProblem(request, body);
    if (problem !== undefined) {
      refused.push(problem);
      return void response
        .writeHead(403)
        .end('<Error><Code>SignatureDoesNotMatch</Code><Message>no &amp; no</Message></Error>');
    }
    const fault = faults.shift();
    if (typeof fault === 'number') return void response.writeHead(fault).end('<Error><Code>SlowDown</Code></Error>');
    if (fault === 'cut') {
      answer(objects, request, { body, response: undefined });
      return void request.socket.destroy();
    }
    answer(objects, request, { body, response });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { endpoint, bucket: 'agents', region: REGION, credentials: S3_KEY, objects, refused, faults };
}

type Answering = { readonly body: Buffer; readonly response: ServerResponse | undefined };

function answer(objects: Map<string, Stored>, request: IncomingMessage, { body, response }: Answering): void {
  const url = new URL(request.url ?? '', 'http://double');
  const [, bucket, ...path] = decodeURIComponent(url.pathname).split('/');
  const key = path.join('/');
  if (bucket !== 'agents') return void response?.writeHead(404).end('<Error><Code>NoSuchBucket</Code></Error>');
  if (key === '') return void response?.writeHead(200).end(listPage(objects, url.searchParams));
  const found = objects.get(key);
  if (request.method === 'PUT') {
    if (request.headers['if-none-match'] === '*' && found !== undefined) return void response?.writeHead(412).end();
    objects.set(key, { bytes: body, at: new Date() });
    return void response?.writeHead(200).end();
  }
  if (request.method === 'DELETE') {
    objects.delete(key);
    return void response?.writeHead(204).end();
  }
  if (found === undefined) return void response?.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
  const [, from = '0', to = ''] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  if (Number(from) >= found.bytes.length) return void response?.writeHead(416).end();
  response?.writeHead(206).end(found.bytes.subarray(Number(from), Number(to) + 1));
}

function listPage(objects: ReadonlyMap<string, Stored>, query: URLSearchParams): string {
  const after = query.get('continuation-token') ?? '';
  const keys = [...objects.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after).sort();
  const entries = keys.slice(0, PAGE).map((key) => {
    const { bytes, at } = objects.get(key) as Stored;
    return `<Contents><Key>${key}</Key><LastModified>${at.toISOString()}</LastModified><Size>${bytes.length}</Size></Contents>`;
  });
  const next = keys.length > PAGE ? `<NextContinuationToken>${keys[PAGE - 1]}</NextContinuationToken>` : '';
  return `<?xml version="1.0"?><ListBucketResult>${entries.join('\n')}${next}</ListBucketResult>`;
}

/** Checks a request as the documentation of Signature Version 4 says, from what came over the wire. */
function findProblem(request: IncomingMessage, body: Buffer): string | undefined {
  const { headers } = request;
  const sha = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
  const [, id, day = '', region = '', names = '', signature] = form.exec(headers.authorization ?? '') ?? [];
  if (id !== S3_KEY.accessKeyId || region !== REGION) return `authorization: ${headers.authorization}`;
  if (headers['x-amz-content-sha256'] !== sha(body)) return 'the digest of the body';
  const unsigned = Object.keys(headers).find(
    (name) =>
      (name.startsWith('x-amz-') || ['host', 'range', 'if-none-match'].includes(name)) &&
      !names.split(';').includes(name),
  );
  if (unsigned !== undefined) return `${unsigned} is not signed`;
  const [path = '', search = ''] = (request.url ?? '').split('?');
  const query = search.split('&').sort().join('&');
  const lines = names.split(';').map((name) => `${name}:${String(headers[name]).trim()}\n`);
  const canonical = `${request.method}\n${path}\n${query}\n${lines.join('')}\n${names}\n${sha(body)}`;
  const text = `AWS4-HMAC-SHA256\n${headers['x-amz-date']}\n${day}/${region}/s3/aws4_request\n${sha(canonical)}`;
  const mac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest();
  const key = mac(mac(mac(mac(`AWS4${S3_KEY.secretAccessKey}`, day), region), 's3'), 'aws4_request');
  return mac(key, text).toString('hex') === signature ? undefined : `signature of ${canonical}`;
}
