import { createConversationMemory } from './conversation-memory.mjs';

/** Words alone: no model, no network. A module for a retrieval scorer. */
export async function create({ conversation }) {
  return createConversationMemory({ conversation });
}
