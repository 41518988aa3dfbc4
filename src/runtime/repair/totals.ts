import { type AgentTotals, NO_TOTALS } from '../agent/agent-state.ts';
import type { ChatState } from '../chat/chat-state.ts';

/** What everybody in a conversation had used at a checkpoint. */
export function totalsOf({ chat, agents }: ChatState): AgentTotals {
  return Object.values(agents).reduce((sum, { totals }) => addTotals(sum, totals), chat.selectorTotals);
}

/** The sum of two. */
export function addTotals(a: AgentTotals, b: AgentTotals): AgentTotals {
  return combine(a, b, 1);
}

/** How much more the first used than the second. */
export function subtractTotals(a: AgentTotals, b: AgentTotals): AgentTotals {
  return combine(a, b, -1);
}

function combine(a: AgentTotals, b: AgentTotals, sign: 1 | -1): AgentTotals {
  const sums = Object.keys(NO_TOTALS).map((key) => {
    const field = key as keyof AgentTotals;
    return [field, a[field] + sign * b[field]];
  });
  return Object.fromEntries(sums) as AgentTotals;
}
