import { z } from 'zod';
import { formatCount } from '../../core/format-count.ts';
import { type AgentTotals, checkTeamState, messageSchema, teamSchema } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import type { TeamState } from '../run/agent-team.ts';
import type { RequestAnswer } from '../run/request-answers.ts';
import type { OperationPolicy } from '../run/run-options.ts';
import type { FormerCall } from '../run/work.ts';
import type { ProgressLedger } from './progress-ledger.ts';

/** How a fleet works; plain data. */
export type FleetSettings = {
  /** Under this name the orchestrator speaks. */
  readonly orchestratorName: string;
  readonly llmConfig: LlmConfig | null;
  readonly modelId: string | null;
  readonly maxRoundCount: number;
  readonly maxStallCount: number;
  readonly maxResetCount: number;
  readonly maxTokens: number | null;
  readonly maxCostUsd: number | null;
  /** Whether a person reviews each plan before it is followed. */
  readonly planReview: boolean;
  readonly policy: OperationPolicy;
  readonly callbacks: FleetCallbackFlags;
};

/** What a run tells its caller. */
export type FleetCallbackFlags = {
  readonly streaming: boolean;
  readonly progressLedger: boolean;
  readonly toolCalls: boolean;
};

/** What is known about the task, and how it is to be done. */
export type TaskLedger = { readonly facts: string; readonly plan: string };

/** What the fleet does next. */
export type FleetPhase = 'new' | 'facts' | 'plan' | 'review' | 'open' | 'progress' | 'speak' | 'answer' | 'ended';

/** What a person said to a request. */
export type FleetAnswer = RequestAnswer & {
  /** The digest of what was asked: it allows nothing else. */
  readonly about?: string;
};

/** What a person is asked: to review a plan, to allow an operation, or to speak for an agent. Plain data, and the same in every run. */
export type FleetQuestion = {
  /** The same however often the run is resumed. */
  readonly id: string;
  readonly kind: 'plan_review' | 'operation' | 'reply';
  /** Who wants to know. */
  readonly agent: string;
  readonly message: string;
  /** What can be answered; empty: any text. */
  readonly options: readonly string[];
  /** Of an operation: what it is, and what it would be done with. */
  readonly operation?: string;
  readonly input?: unknown;
  /** Of a review: the plan, and whether the one before it led nowhere. */
  readonly plan?: string;
  readonly isStalled?: boolean;
};

/** A question from the moment it is asked. It lives in the checkpoint until it is answered. */
export type FleetRequest = FleetQuestion & {
  readonly askedAtMs: number;
  readonly deadlineMs?: number;
  readonly onTimeout: 'wait' | 'reject';
};

/** The answer that means yes. */
export const APPROVE = 'approve';

/** A fleet without its agents. What comes next follows from this alone. */
export type FleetRecord = {
  readonly settings: FleetSettings;
  readonly task: string;
  /** What was asked for later, when the fleet was resumed with a prompt. */
  readonly followUps: readonly string[];
  readonly phase: FleetPhase;
  readonly taskLedger: TaskLedger | null;
  readonly progressLedger: ProgressLedger | null;
  /** The conversation since the plan in force was made. */
  readonly messages: readonly ChatMessage[];
  /** How often the ledger was asked about progress, in all. */
  readonly rounds: number;
  readonly stalls: number;
  readonly resets: number;
  /** The counts at which it ends. */
  readonly roundLimit: number;
  readonly resetLimit: number;
  /** How often the plan was made: for the first time, again, or over because a person wanted it. */
  readonly planCount: number;
  /** What a person wants to have changed in the plan. */
  readonly planFeedback: string | null;
  readonly nextSpeaker: string | null;
  /** In older states: what the turn under way has done, if it was saved halfway. */
  readonly turn?: readonly FormerCall[];
  /** What people are asked now. */
  readonly requests: Readonly<Record<string, FleetRequest>>;
  /** What they said, to be looked up later. */
  readonly answers: Readonly<Record<string, FleetAnswer>>;
  /** The last words of an agent: the best answer so far when nothing better can be had. */
  readonly lastWords: string;
  /** Why the answer is being put together. */
  readonly ending: FleetEndReason | null;
  readonly end: FleetEnd | null;
  /** What the orchestrator itself used. */
  readonly totals: AgentTotals;
};

/** What a checkpoint of a fleet holds. */
export type FleetState = TeamState<typeof FLEET_KIND> & { readonly fleet: FleetRecord };

export const FLEET_KIND = 'fleet';

const count = z.int().nonnegative();
const entries = z.record(z.string(), z.looseObject({}));

const schema = teamSchema(FLEET_KIND, {
  fleet: z.looseObject({
    settings: z.looseObject({ orchestratorName: z.string(), maxRoundCount: count, policy: z.looseObject({}) }),
    task: z.string(),
    followUps: z.array(z.string()),
    phase: z.enum(['new', 'facts', 'plan', 'review', 'open', 'progress', 'speak', 'answer', 'ended']),
    taskLedger: z.looseObject({ facts: z.string(), plan: z.string() }).nullable(),
    progressLedger: z.looseObject({ next_speaker: z.looseObject({ answer: z.string() }) }).nullable(),
    messages: z.array(messageSchema),
    rounds: count,
    stalls: count,
    resets: count,
    roundLimit: count,
    resetLimit: count,
    planCount: count,
    nextSpeaker: z.string().nullable(),
    turn: z.array(z.looseObject({ digest: z.string() })).optional(),
    requests: entries,
    answers: entries,
    end: z.looseObject({ reason: z.string() }).nullable(),
  }),
});

/** Checks that a state is one of a fleet; throws an InvalidInputError that says what it is instead. */
export function parseFleetState(value: unknown): FleetState {
  checkTeamState(value, { kind: FLEET_KIND, schema, noun: 'fleet', advice: '. Restore it with what it was saved by.' });
  return value as FleetState;
}

/** The request with everything that was asked for later. */
export function wordRequest({ task, followUps }: Pick<FleetRecord, 'task' | 'followUps'>): string {
  return [task, ...followUps.map((prompt) => `Later the user said: ${prompt}`)].join('\n\n');
}

/** Why a fleet stopped for good. */
export type FleetEndReason =
  | 'satisfied'
  | 'max_rounds'
  | 'max_resets'
  | 'token_budget'
  | 'cost_budget'
  | 'plan_rejected'
  | 'exit';

/** The ends at which the orchestrator's model may still be asked to put an answer together. */
export const ANSWERED: readonly FleetEndReason[] = ['satisfied', 'max_rounds', 'max_resets'];

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
