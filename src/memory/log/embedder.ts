import { z } from 'zod';
import { InvalidInputError, StorageError } from '../../core/errors.ts';

/** Turns texts into vectors. Vectors carry the `id` of their model and are only compared with vectors of the same one. */
export interface Embedder {
  readonly id: string;
  /** One vector for each text, in their order, of whatever length: only directions are compared. */
  embed(texts: readonly string[], options?: { readonly signal?: AbortSignal }): Promise<readonly Float32Array[]>;
}

/** A vector of length 1 in the same direction, so that a dot product is a cosine. */
export function normaliseVector(values: ArrayLike<number>): Float32Array {
  const vector = Float32Array.from(values);
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.sqrt(sum);
  return length === 0 ? vector : vector.map((value) => value / length);
}

/** The cosine of two vectors of length 1. */
export function cosine(first: Float32Array, second: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < first.length; at++) sum += (first[at] as number) * (second[at] as number);
  return sum;
}

/** Where an OpenAI-compatible `/embeddings` is. */
export type EndpointEmbedderOptions = {
  /** Such as `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  readonly model: string;
  readonly apiKey?: string;
  readonly dimensions?: number;
  /** How long one request may take; default 10 s. */
  readonly timeoutMs?: number;
  readonly headers?: { readonly [name: string]: string };
};

const DEFAULT_TIMEOUT_MS = 10_000;
/** Texts of one request; servers refuse very long lists. */
const BATCH = 64;

const Answer = z.object({
  data: z.array(z.object({ index: z.number().int().optional(), embedding: z.array(z.number()).min(1) })),
});

/** An embedder behind an OpenAI-compatible `/embeddings`. Only what is passed to `embed` leaves the process, and only to there. */
export function endpointEmbedder(options: EndpointEmbedderOptions): Embedder {
  const { model, dimensions } = options;
  const url = parseUrl(options.baseUrl);
  return {
    id: `${url.origin}${url.pathname}:${model}${dimensions === undefined ? '' : `:${dimensions}`}`,
    async embed(texts, { signal } = {}) {
      const vectors: Float32Array[] = [];
      for (let at = 0; at < texts.length; at += BATCH)
        vectors.push(...(await request(url, { ...options, texts: texts.slice(at, at + BATCH), signal })));
      return vectors;
    },
  };
}

function parseUrl(baseUrl: string): URL {
  const address = `${baseUrl.replace(/\/+$/, '')}/embeddings`;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  throw new InvalidInputError(
    `baseUrl must be an http(s) address such as https://api.openai.com/v1; found ${JSON.stringify(baseUrl)}.`,
  );
}

type EmbeddingRequest = EndpointEmbedderOptions & {
  readonly texts: readonly string[];
  readonly signal: AbortSignal | undefined;
};

async function request(url: URL, { texts, signal, ...options }: EmbeddingRequest): Promise<Float32Array[]> {
  const timeout = AbortSignal.timeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(options.apiKey !== undefined && { authorization: `Bearer ${options.apiKey}` }),
      ...options.headers,
    },
    body: JSON.stringify({
      model: options.model,
      input: texts,
      encoding_format: 'float',
      ...(options.dimensions !== undefined && { dimensions: options.dimensions }),
    }),
    redirect: 'manual', // it would take the texts, and keys in headers, to another host
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
  }).catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw new StorageError(`${url.href} could not be reached (${String(cause)}).`, { cause });
  });
  return readAnswer(url, response, texts.length);
}

async function readAnswer(url: URL, response: Response, count: number): Promise<Float32Array[]> {
  if (!response.ok) {
    await response.body?.cancel();
    throw new StorageError(`${url.href} answered with status ${response.status}.`, {
      details: { status: response.status },
    });
  }
  const answer = Answer.safeParse(await response.json().catch(() => undefined));
  if (!answer.success || answer.data.data.length !== count) {
    throw new StorageError(`${url.href} did not answer with ${count} embeddings. Is it an OpenAI-compatible endpoint?`);
  }
  const entries = answer.data.data.map(({ index, embedding }, at) => ({ index: index ?? at, embedding }));
  return entries.sort((a, b) => a.index - b.index).map(({ embedding }) => Float32Array.from(embedding));
}
