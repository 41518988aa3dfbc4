import { formatCount } from '../../core/format-count.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import type { FleetRecord } from './fleet-state.ts';

/** Why a fleet stopped for good. */
export type FleetEndReason =
  | 'satisfied'
  | 'max_rounds'
  | 'max_resets'
  | 'token_budget'
  | 'cost_budget'
  | 'plan_rejected'
  | 'exit';

/** How a fleet ended; recorded in its last checkpoint. */
export type FleetEnd = {
  readonly reason: FleetEndReason;
  /** In a sentence. */
  readonly detail: string;
  /** The final answer, or the best one so far. */
  readonly answer: string;
};

/** The limit that a fleet has reached, if any. Depends on what was done, and on nothing else. */
export function findLimit(record: FleetRecord, totals: AgentTotals): FleetEndReason | undefined {
  const { maxTokens, maxCostUsd } = record.settings;
  if (maxTokens !== null && totals.inputTokens + totals.outputTokens >= maxTokens) return 'token_budget';
  if (maxCostUsd !== null && totals.costUsd >= maxCostUsd) return 'cost_budget';
  return record.rounds >= record.roundLimit ? 'max_rounds' : undefined;
}

/** Whether the orchestrator's model may still be asked to put an answer together. */
export function mayAskForAnswer(reason: FleetEndReason): boolean {
  return reason === 'satisfied' || reason === 'max_rounds' || reason === 'max_resets';
}

/** Says why a fleet ends. */
export function describeEnd(reason: FleetEndReason, { rounds, resets, settings, progressLedger }: FleetRecord): string {
  switch (reason) {
    case 'satisfied':
      return progressLedger?.is_request_satisfied.reason || 'The request is satisfied.';
    case 'max_rounds':
      return `The fleet worked for ${formatCount(rounds, 'round')}, and no more are allowed.`;
    case 'max_resets':
      return `The fleet was reset ${formatCount(resets, 'time')}, is stuck again, and may not be reset once more.`;
    case 'token_budget':
      return `The budget of ${settings.maxTokens} tokens is used up.`;
    case 'cost_budget':
      return `The budget of ${settings.maxCostUsd} USD is used up.`;
    case 'plan_rejected':
      return 'The plan was rejected.';
    case 'exit':
      return 'A person ended it.';
  }
}
