import { type StepError, toStepError } from './run-state.ts';

/** What came of a step's action. `open`: it waits for a person or a time, and nothing else is left to do. */
export type Outcome =
  | { readonly status: 'done'; readonly output: unknown; readonly attempts?: number }
  | {
      readonly status: 'failed';
      readonly error: StepError;
      readonly output?: unknown;
      readonly attempts?: number;
      /** Whether running it again cannot help. */
      readonly isFinal?: boolean;
    }
  | { readonly status: 'open' };

export const OPEN: Outcome = Object.freeze({ status: 'open' });

/** A failure that comes from the workflow itself rather than from code it calls. */
export function failed(name: string, message: string): Outcome & { readonly status: 'failed' } {
  return { status: 'failed', error: toStepError(Object.assign(new Error(message), { name })) };
}
