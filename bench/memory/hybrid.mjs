import { localEmbedder } from '../../dist/memory/index.js';
import { createConversationMemory } from './conversation-memory.mjs';

const embedder = localEmbedder();

/** Words and the packaged local model. A module for a retrieval scorer. */
export async function create({ conversation }) {
  return createConversationMemory({ conversation, embedder });
}
