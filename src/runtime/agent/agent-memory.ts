import type { SessionPlace } from '../../memory/lineages.ts';
import type { Memory } from '../../memory/memory.ts';
import type { MemoryScope } from '../../memory/memory-record.ts';

/** Long-term memory as a conversation uses it. */
export type AgentMemory = {
  readonly memory: Memory;
  /** Whose memory it is: at least one of userId, agentId and runId. */
  readonly scope: MemoryScope;
  /** What `{memory}` may take of a prompt; default 600. */
  readonly budgetTokens?: number;
};

/** A prompt with its `{memory}` blocks filled, and which memories are in them. */
export type FilledPrompt = { readonly text: string; readonly ids: readonly string[] };

/** Fills the `{memory}` blocks of a prompt for a question. */
export type Recall = (template: string, query: string) => Promise<FilledPrompt>;

/** Recalls from where a session stands, so that what an abandoned branch taught stays unknown. */
export function createRecall({ memory, scope, budgetTokens }: AgentMemory, session: SessionPlace): Recall {
  return async (template, query) => {
    const { text, ids } = await memory.render(template, {
      scope,
      query,
      session,
      ...(budgetTokens !== undefined && { budgetTokens }),
    });
    return { text, ids };
  };
}

/** Whether a prompt has a `{memory}` block. */
export function hasMemoryBlock(template: string): boolean {
  return template.includes('{memory');
}
