import { codeOf, InvalidInputError, messageOf } from '../../../core/errors.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { InputDigest } from '../../../manager/effect/input-digest.ts';
import type { RequestAnswer } from '../../run/request-answers.ts';
import type { Fingerprint } from '../definition/fingerprint.ts';

/** An error as data. The digest is the same for the same name, code and message. */
export type StepError = {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly digest: string;
};

/** How a step, or one turn of a loop, ended. */
export type StepEnd = {
  /** `fetch`, `review[2]`, `pay/charge`: steps, turns of loops, steps of sub-workflows. */
  readonly path: string;
  readonly status: 'done' | 'skipped' | 'failed';
  readonly output?: unknown;
  readonly error?: StepError;
  readonly attempts?: number;
  /** Of a failed one: whether running it again could not have helped, as when a person said no. */
  readonly isFinal?: boolean;
  readonly endedAtMs: number;
};

/** A step that failed, so that the run stopped. It runs again on resume. */
export type StepFailure = {
  readonly path: string;
  readonly error: StepError;
  readonly attempts: number;
  /** Whether running it again cannot help: a person said no. */
  readonly isFinal: boolean;
};

/** How far retries have come at a step that has not ended. */
export type Tries = {
  /** How many attempts of this round failed; 0 when a new round begins. */
  readonly turn: number;
  /** How often it was begun in all; what a crash cut off counts. */
  readonly attempts: number;
  /** What the last one failed with. */
  readonly error?: StepError;
  readonly isFinal: boolean;
  /** When the last one failed: the pause counts from there. */
  readonly atMs: number;
};

/** A step that was never tried. */
export const UNTRIED: Tries = Object.freeze({ turn: 0, attempts: 0, isFinal: false, atMs: 0 });

/** What a person said. */
export type ApprovalAnswer = RequestAnswer;

/** Something a person is asked, from the moment it is asked. */
export type ApprovalRequest = {
  readonly id: string;
  readonly path: string;
  readonly message: string;
  readonly options: readonly string[];
  readonly askedAtMs: number;
  readonly deadlineMs?: number;
  readonly onTimeout: 'wait' | 'reject' | 'approve';
  readonly answer?: ApprovalAnswer;
};

/** Where a run is. */
export type RunStatus = 'running' | 'waiting' | 'completed' | 'failed';

/** What is saved of a run: enough to go on in another process, and nothing that is code. */
export type RunState = {
  readonly kind: 'workflow_run';
  readonly workflow: string;
  readonly fingerprint: Fingerprint;
  /** How often it was migrated to another definition. */
  readonly migrations: number;
  readonly input: unknown;
  /** With the marks of its secrets, which are not stored. Older versions did not write it. */
  readonly inputDigest?: InputDigest;
  readonly status: RunStatus;
  /** In the order they ended. Grows at its end only, so that a save costs what is new. */
  readonly ends: readonly StepEnd[];
  readonly requests: { readonly [id: string]: ApprovalRequest };
  /** The deadlines of waiting steps, by path. */
  readonly timers: { readonly [path: string]: number };
  readonly tries: { readonly [path: string]: Tries };
  readonly failures: readonly StepFailure[];
  readonly output?: unknown;
};

/** The state of a run that has done nothing yet. */
export function newRunState(begun: Pick<RunState, 'workflow' | 'fingerprint' | 'input' | 'inputDigest'>): RunState {
  const nothing = { ends: [], requests: {}, timers: {}, tries: {}, failures: [] };
  return { kind: 'workflow_run', ...begun, migrations: 0, status: 'running', ...nothing };
}

/** Accepts the state of a run or throws: a session may be anybody's. */
export function parseRunState(state: unknown, sessionId: string): RunState {
  if (typeof state === 'object' && state !== null && 'kind' in state && state.kind === 'workflow_run')
    return state as RunState;
  throw new InvalidInputError(`Session "${sessionId}" does not hold the run of a workflow.`, {
    details: { sessionId },
  });
}

/** What came of a step's action, or of a workflow. `open`: it waits for a person or a time, and nothing else is left to do. */
export type Outcome =
  | { readonly status: 'done'; readonly output: unknown; readonly attempts?: number }
  | Failed
  | { readonly status: 'open' };

/** An action that failed; `isFinal` if running it again cannot help. */
export type Failed = Pick<StepEnd, 'output' | 'attempts' | 'isFinal'> & {
  readonly status: 'failed';
  readonly error: StepError;
};

export const OPEN: Outcome = Object.freeze({ status: 'open' });

/** A failure that comes from the workflow itself rather than from code it calls. */
export function failed(name: string, message: string): Failed {
  return { status: 'failed', error: toStepError(Object.assign(new Error(message), { name })) };
}

/** An error as data. */
export function toStepError(error: unknown): StepError {
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: messageOf(error) };
  const code = codeOf(error);
  const digest = digestText(JSON.stringify([name, code ?? null, message])).slice(0, 16);
  return { name, message, ...(code !== undefined && { code }), digest };
}
