/** Turns texts into vectors. Vectors carry the `id` of their model and are only compared with vectors of the same one. */
export interface Embedder {
  readonly id: string;
  /** How long the vectors are; undefined while that is not known. */
  readonly dimensions?: number | undefined;
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
