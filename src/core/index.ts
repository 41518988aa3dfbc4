/** The pure parts: encoding states to chunks, comparing them, patches. */

export type { EncodedState, StateCodecOptions } from './codec/state-codec.ts';
export { findIn, StateCodec } from './codec/state-codec.ts';
export { applyPatch, diffStates, diffText, toPatch } from './diff/index.ts';
export type { Chunk, ChunkContent, Digest } from './tree/chunk.ts';
export { createChunk, formatChunk, parseChunk } from './tree/chunk.ts';
export type { ClassCodec } from './value/class-codec.ts';
