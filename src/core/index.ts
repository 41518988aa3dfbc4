/** The pure parts: encoding states to chunks, comparing them, patches. */

export { StateCodec, type StateCodecOptions } from './codec/state-codec.ts';
export { applyPatch, diffStates, diffText, toPatch } from './diff/index.ts';
