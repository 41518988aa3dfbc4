import type { ChatMessage } from './chat-message.ts';

/** What somebody who is about to speak has before them. */
export type Situation = {
  readonly task?: string | undefined;
  readonly plan?: string | undefined;
  readonly heard: readonly ChatMessage[];
};

/** Beginnings are enough to say what it is about, and no part may push out the others. */
const PART_CHARS = 400;
const RECENT_MESSAGES = 4;

/**
 * Words the question to long-term memory: the last message alone ("Good.", "Do part 1.") says little of what it is about. What matters
 * most comes first: the last message, the task, the messages before it, the plan.
 */
export function wordQuery({ task, plan, heard }: Situation): string {
  const [last, ...earlier] = heard
    .slice(-RECENT_MESSAGES)
    .map(({ content }) => content)
    .toReversed();
  const parts = [last, task, ...earlier, plan].map((part) => part?.trim().slice(0, PART_CHARS) ?? '');
  return [...new Set(parts)].filter((part) => part !== '').join('\n');
}
