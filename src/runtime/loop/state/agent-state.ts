import type { OpenWork } from '../../run/work.ts';
import type { MailboxState } from './mailbox.ts';

/** What the agent is working on. Work goes on by itself while the status is `active`. */
export type AgentTask = {
  readonly id: string;
  readonly status: 'active' | 'waiting' | 'done' | 'failed';
  /** From 0 to 1. */
  readonly progress: number;
  readonly details?: unknown;
};

/** Tells the agent what happened to it while it could not know. */
export type RecoveryNote = {
  readonly kind: 'drift' | 'restored' | 'refresh' | 'task_failed';
  readonly atMs: number;
  readonly text: string;
  readonly restoredFrom?: string;
  /** Messages that were handled after the restored checkpoint, and are not handled again. */
  readonly handledSince?: readonly string[];
};

/** What guides the agent. */
export type OperationalContext = {
  readonly goals: readonly string[];
  readonly constraints: readonly string[];
  readonly decisions: readonly unknown[];
  /** The last few, oldest first. */
  readonly notes: readonly RecoveryNote[];
};

/** `shortTerm` is what a clean context is clean of; `session` outlives refreshes and restores. */
export type AgentMemory = {
  readonly shortTerm: { readonly [key: string]: unknown };
  readonly session: { readonly [key: string]: unknown };
};

/** The part of the state that a turn may change. */
export type AgentMind = {
  readonly task: AgentTask | null;
  readonly context: OperationalContext;
  readonly memory: AgentMemory;
};

/** What a turn does: handles a message, or goes on with the task. */
export type Job = { readonly kind: 'message'; readonly messageId: string } | { readonly kind: 'work' };

/** What the loop remembers for itself. */
export type LoopState = {
  /** How many turns are over. */
  readonly turn: number;
  /** Where the grid of routine checkpoints begins; kept over restarts. */
  readonly gridStartMs: number;
  /** Failures of `work` in a row. */
  readonly workFailures: number;
  readonly restoredAtMs: readonly number[];
  readonly escalation: { readonly atMs: number; readonly reason: string } | null;
  /** The turn a checkpoint was taken in, and whether clean context begins when it ends. */
  readonly current: { readonly job: Job; readonly isCleanDue?: boolean } | null;
  /** The message and the task that were begun and are not over, with the calls that need not be made again. */
  readonly works?: readonly OpenWork[];
  readonly drift: unknown;
};

/** Everything a checkpoint of an agent holds. */
export type LoopAgentState = AgentMind & { readonly mailbox: MailboxState; readonly loop: LoopState };

/** What the loop of a new agent remembers. */
export const NEW_LOOP: LoopState = {
  turn: 0,
  gridStartMs: 0,
  workFailures: 0,
  restoredAtMs: [],
  escalation: null,
  current: null,
  works: [],
  drift: null,
};

const MAX_NOTES = 10;

/** A mind with a note added; the oldest goes when there are too many. */
export function addNote<Mind extends AgentMind>(mind: Mind, note: RecoveryNote): Mind {
  const notes = [...mind.context.notes, note].slice(-MAX_NOTES);
  return { ...mind, context: { ...mind.context, notes } };
}

/** A mind with clean context: task, goals, constraints, decisions and session memory stay. */
export function cleanContext<Mind extends AgentMind>(mind: Mind): Mind {
  return { ...mind, memory: { ...mind.memory, shortTerm: {} } };
}

/** Whether nothing more is done for a task. */
export function isOver({ status }: AgentTask): boolean {
  return status === 'done' || status === 'failed';
}

/**
 * The task of an agent that goes back to an earlier state: the earlier one, unless another was given since. That one stays, from
 * its beginning, because the message it came with is not handled again; if it is over, it stays over.
 */
export function taskAfterDrift(earlier: AgentTask | null, now: AgentTask | null): AgentTask | null {
  if (now === null) return earlier;
  const isGivenAgain = earlier !== null && isOver(earlier) && !isOver(now);
  if (earlier?.id === now.id && !isGivenAgain) return earlier;
  return isOver(now) ? now : { ...now, status: 'active', progress: 0 };
}

/** Just the part of a state that turns change. */
export function mindOf({ task, context, memory }: AgentMind): AgentMind {
  return { task, context, memory };
}
