import type { Expression } from '../../../core/expression/parse-expression.ts';
import type { Template } from './template.ts';

/** What a step does. The names are those of a registry: code is never part of a definition. */
export type Action =
  | NamedAction
  | ApprovalAction
  | { readonly kind: 'wait'; readonly durationMs: number }
  | { readonly kind: 'wait_until'; readonly time: Template }
  | { readonly kind: 'join'; readonly of: readonly string[] };

/** Calls something of the registry. */
export type NamedAction = {
  readonly kind: 'function' | 'agent' | 'workflow';
  readonly name: string;
  readonly input: Template | undefined;
};

/** Asks a person. */
export type ApprovalAction = {
  readonly kind: 'approval';
  readonly message: Template;
  readonly options: readonly string[];
  readonly timeoutMs: number | undefined;
  readonly onTimeout: 'wait' | 'reject' | 'approve';
};

/** How often a step's action is done. */
export type Loop =
  | { readonly kind: 'for_each'; readonly items: Template; readonly concurrency: number }
  | { readonly kind: 'repeat'; readonly until: Expression; readonly limit: number };

/** How often a failing action is tried, and after which pauses. */
export type RetryPolicy = {
  readonly maxAttempts: number;
  readonly delayMs: number;
  readonly factor: number;
  readonly maxDelayMs: number;
};

/** What happens when a step fails for good. */
export type OnError = { readonly kind: 'stop' | 'continue' } | { readonly kind: 'goto'; readonly target: string };

/** One step, checked and complete. */
export type WorkflowStep = {
  readonly id: string;
  /** What people read. */
  readonly title: string;
  readonly action: Action;
  /** The steps that must have ended before. */
  readonly needs: readonly string[];
  /** All must hold, or the step is skipped. */
  readonly when: readonly Expression[];
  readonly loop: Loop | undefined;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number | undefined;
  readonly onError: OnError;
  readonly checkpoint: boolean;
  readonly operation: string | undefined;
  /** What decides about its result, as it was written; the fingerprint goes by it. */
  readonly meaning: unknown;
};

/** A workflow, checked and complete. Made by `defineWorkflow` and `parseWorkflow`. */
export type Workflow = {
  readonly name: string;
  readonly description: string | undefined;
  /** In an order in which each step comes after what it needs. */
  readonly steps: readonly WorkflowStep[];
  /** The ids in the order they were written. */
  readonly order: readonly string[];
  readonly output: Template | undefined;
};
