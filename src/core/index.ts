/** The pure parts: encoding states to chunks, comparing them, patches. */

export type { StateCodecOptions } from './codec/state-codec.ts';
export { StateCodec } from './codec/state-codec.ts';
export { applyPatch, diffStates, diffText, toPatch } from './diff/index.ts';
