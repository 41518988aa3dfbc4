import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf } from '../../core/errors.ts';
import {
  formatChatChunks,
  formatChatCompletion,
  type ServedReply,
  type ServedStream,
} from './chat-completion-format.ts';
import { formatResponse, formatResponseEvents } from './responses-format.ts';
import { findAnswer, isFailure, type Script, type ScriptedFailure, type ScriptedReply } from './scripted-answer.ts';

/** A request as the server got it. */
export type ServerRequest = {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** As they came, with the key in them. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
};

/** What a model server does. */
export type ModelServerOptions = {
  /** Answers to chat completions and responses. Embeddings need none. A list that has come to its end answers with status 500. */
  readonly answer: Script<ServerRequest>;
  /** Refuses requests without this key. */
  readonly apiKey?: string;
};

/** A server under way. */
export type ModelServer = {
  /** Without a path: `http://127.0.0.1:40123`. */
  readonly origin: string;
  /** What clients of OpenAI want as base URL: the origin with `/v1`. */
  readonly url: string;
  /** Everything it was asked, in order. */
  readonly requests: readonly ServerRequest[];
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

type Format = {
  readonly whole: (served: ServedReply) => object;
  readonly stream: (served: ServedReply) => ServedStream;
};

/** By the end of the path: Azure puts `/openai/v1` or `/openai/deployments/<name>` before it. */
const FORMATS: Readonly<Record<string, Format>> = {
  '/chat/completions': { whole: formatChatCompletion, stream: formatChatChunks },
  '/responses': { whole: formatResponse, stream: formatResponseEvents },
};

/**
 * Starts a server on the loopback interface that speaks OpenAI's protocol and answers from a script: chat completions and responses,
 * streamed or not, embeddings, with OpenAI's and Azure's paths, and failures of every kind.
 */
export async function startModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const host = new ModelHost(options);
  const server = createServer((request, response) => void host.handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections(); // also those that hang on purpose
    await closed;
  };
  return { origin, url: `${origin}/v1`, requests: host.requests, close, [Symbol.asyncDispose]: close };
}

class ModelHost {
  readonly requests: ServerRequest[] = [];
  readonly #options: ModelServerOptions;
  #answered = 0;

  constructor(options: ModelServerOptions) {
    this.#options = options;
  }

  /** Answers one request. Whatever a script throws becomes a status, as with a real server. */
  async handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => response.destroy());
    try {
      const request = await readRequest(incoming);
      this.requests.push(request);
      await this.#answer(request, response);
    } catch (error) {
      refuse(response, {
        status: 500,
        message: `The script failed: ${messageOf(error)}`,
      });
    }
  }

  async #answer(request: ServerRequest, response: ServerResponse): Promise<void> {
    if (!this.#isAllowed(request)) return refuse(response, { status: 401, message: 'Incorrect API key provided.' });
    if (request.path.endsWith('/embeddings')) return sendJson(response, 200, formatEmbeddings(request.body));
    const format = Object.entries(FORMATS).find(([end]) => request.path.endsWith(end))?.[1];
    if (format === undefined || request.method !== 'POST')
      return refuse(response, { status: 404, message: `There is no ${request.method} ${request.path}.` });
    const index = this.#answered++;
    const answer = await findAnswer(this.#options.answer, request, index);
    if (answer === undefined)
      return refuse(response, { status: 500, message: `The script has no answer for request ${index}.` });
    await serve({ answer, index, body: request.body }, format, response);
  }

  #isAllowed({ headers }: ServerRequest): boolean {
    const { apiKey } = this.#options;
    return apiKey === undefined || headers.authorization === `Bearer ${apiKey}` || headers['api-key'] === apiKey;
  }
}

async function readRequest(incoming: IncomingMessage): Promise<ServerRequest> {
  const url = new URL(incoming.url ?? '/', 'http://127.0.0.1');
  const text = await readText(incoming);
  return {
    method: incoming.method ?? 'GET',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: incoming.headers,
    body: text === '' ? {} : (JSON.parse(text) as ServerRequest['body']),
  };
}

type Served = Omit<ServedReply, 'reply'> & { readonly answer: ScriptedReply | ScriptedFailure };

async function serve({ answer, ...rest }: Served, format: Format, response: ServerResponse): Promise<void> {
  if (!isFailure(answer)) {
    if (answer.delayMs !== undefined) await wait(answer.delayMs);
    const served = { ...rest, reply: answer };
    return isStreamed(rest)
      ? sendEvents(response, format.stream(served))
      : sendJson(response, 200, format.whole(served));
  }
  if ('hang' in answer) return;
  if ('status' in answer) return refuse(response, answer);
  if ('garbage' in answer) return sendGarbage(response, answer.garbage, isStreamed(rest));
  const served = { ...rest, reply: { text: answer.text ?? '' } };
  const sent = isStreamed(rest)
    ? format.stream(served).events.join('')
    : JSON.stringify(format.whole(served)).slice(0, -1);
  await breakOff(response, sent, answer.cut);
}

function isStreamed({ body }: Pick<ServedReply, 'body'>): boolean {
  return body.stream === true;
}

async function breakOff(response: ServerResponse, sent: string, how: 'connection' | 'stream'): Promise<void> {
  response.writeHead(200, { 'content-type': sent.startsWith('{') ? 'application/json' : 'text/event-stream' });
  // What was written is to arrive before the connection breaks.
  await new Promise((done) => response.write(sent, done));
  if (how === 'stream') response.end();
  else response.socket?.destroy();
}

function sendJson(response: ServerResponse, status: number, value: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}

function sendEvents(response: ServerResponse, { events, ending }: ServedStream): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of [...events, ...ending]) response.write(event);
  response.end();
}

function sendGarbage(response: ServerResponse, garbage: string, isStream: boolean): void {
  response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
  response.end(isStream ? `data: ${garbage}\n\n` : garbage);
}

type Refusal = Extract<ScriptedFailure, { readonly status: unknown }>;

function refuse(response: ServerResponse, { status, message = 'Refused by the script.', retryAfterMs }: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  if (retryAfterMs !== undefined) response.setHeader('retry-after', `${retryAfterMs / 1000}`);
  sendJson(response, status, { error: { message, type: 'scripted', param: null, code: null } });
}

function formatEmbeddings({ input, model, dimensions }: ServerRequest['body']): object {
  const texts = (Array.isArray(input) ? input : [input]).map(String);
  const size = typeof dimensions === 'number' ? dimensions : undefined;
  const tokens = Math.ceil(texts.join('').length / 4);
  return {
    object: 'list',
    model: model ?? 'scripted',
    data: texts.map((text, index) => ({ object: 'embedding', index, embedding: hashedEmbedding(text, size) })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/**
 * A vector of length 1 that depends on the words of a text alone: texts that share words are near each other, and every run gives the
 * same. It knows nothing of meaning.
 */
export function hashedEmbedding(text: string, dimensions = 256): number[] {
  const vector = Array.from({ length: dimensions }, () => 0);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['']) {
    const digest = createHash('sha256').update(word).digest();
    const at = digest.readUInt32BE(0) % dimensions;
    vector[at] = (vector[at] ?? 0) + (digest.readUInt8(4) % 2 === 0 ? 1 : -1);
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}
