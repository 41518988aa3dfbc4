/** The pure parts: encoding states to chunks, comparing them, patches. */

export type { Chunk, ChunkContent, Digest } from './chunk.ts';
export { createChunk, formatChunk, parseChunk } from './chunk.ts';
export type { ClassCodec } from './class-codec.ts';
export { applyPatch, diffStates, diffText, toPatch } from './diff/index.ts';
export type { EncodedState, StateCodecOptions } from './state-codec.ts';
export { findIn, StateCodec } from './state-codec.ts';
