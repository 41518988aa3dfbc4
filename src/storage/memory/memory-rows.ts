import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { Chunk, ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { EffectRow, RefChange } from '../contract.ts';

/** Reads a header of its own, so that the caller's is the caller's to change. */
export const parseHeader = (body: string): CheckpointHeader => JSON.parse(body) as CheckpointHeader;

/** A frozen copy can be handed out again and again without being copied again. */
export const freezeContent = ({ text, refs }: ChunkContent): ChunkContent =>
  Object.freeze({ text, refs: Object.freeze([...refs]) });

/** The same of a chunk. */
export const freezeChunk = (chunk: Chunk): Chunk => Object.freeze({ digest: chunk.digest, ...freezeContent(chunk) });

/** The same of an effect. */
export const freezeEffect = ({ sessionId, branch, ordinal, body, digest, result }: EffectRow): EffectRow =>
  Object.freeze({ sessionId, branch, ordinal, body, digest, ...(result && { result: freezeContent(result) }) });

/** What a ref is found by in its session. */
export const refKey = ({ kind, name }: Pick<RefChange, 'kind' | 'name'>): string => `${kind} ${name}`;

/** What an effect is found by in its session. */
export const effectKey = ({ branch, ordinal }: Pick<EffectRow, 'branch' | 'ordinal'>): string => `${ordinal} ${branch}`;

/** About how many bytes a content takes up. */
export const sizeOf = (content: { text: string; refs: readonly Digest[] }): number =>
  content.text.length + content.refs.length * 32;
