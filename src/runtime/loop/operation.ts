import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/id.ts';
import { type ErrorText, errorOf, errorText } from './error-text.ts';
import type { LoopTool, Turn } from './loop-agent.ts';
import type { FinishedCall, OpenCalls } from './open-calls.ts';

/** What to do when a guarded operation fails. */
export type GuardOptions = {
  /** `rollback` (default): undo its calls, put the state back, and answer so. `rethrow`: throw what went wrong. */
  readonly onFailure?: 'rollback' | 'rethrow';
};

/** A guarded operation under way: calls made through it can be taken back. */
export interface Operation {
  call(tool: string, input: unknown): Promise<unknown>;
}

/** What became of one call of an operation that was rolled back. `kept`: its tool has no undo, so its effect stands. */
export type UndoneCall = {
  readonly tool: string;
  readonly status: 'undone' | 'kept' | 'failed';
  readonly error?: ErrorText;
};

/** How a guarded operation ended. */
export type OperationOutcome<Result> =
  | { readonly status: 'done'; readonly value: Result }
  | { readonly status: 'rolled_back'; readonly error: ErrorText; readonly undone: readonly UndoneCall[] };

/** What a guard needs of the turn and the loop around it. `key` is the operation's name, unique in its turn. */
export type GuardParts = {
  readonly key: string;
  readonly name: string;
  readonly step: Turn['step'];
  readonly calls: OpenCalls;
  /** The calls of the operation that this one is part of: what this one did is taken back with them. */
  readonly outer: OpenCalls | undefined;
  readonly findTool: (name: string) => LoopTool | undefined;
  /** Remembers the state as it is now; answers how to put it back. */
  readonly remember: () => () => void;
  /** Whether the loop is stopping: an operation that ends for that reason goes on after the restart. */
  readonly isStopping: () => boolean;
  readonly log: OperationLog;
};

/** Where the loop keeps account of guarded operations: checkpoints, marks and events. */
export interface OperationLog {
  begin(operation: { readonly name: string; readonly key: string }): Promise<CheckpointId>;
  succeed(name: string, before: CheckpointId): Promise<void>;
  fail(operation: { readonly name: string; readonly error: ErrorText }, before: CheckpointId): Promise<void>;
  rolledBack(name: string, undone: readonly UndoneCall[]): void;
}

/** Recorded; `calls` is absent where an older version recorded it. */
type Ending<Result> =
  | { readonly status: 'done'; readonly value: Result; readonly calls?: readonly FinishedCall[] }
  | { readonly status: 'failed'; readonly error: ErrorText; readonly calls: readonly FinishedCall[] };

/** Checks what a guard was asked to do when its operation fails. */
export function parseGuardOptions(options: GuardOptions | undefined): Required<GuardOptions> {
  const { onFailure = 'rollback' } = options ?? {};
  if (onFailure !== 'rollback' && onFailure !== 'rethrow')
    throw new InvalidInputError(
      `The onFailure of a guard is ${JSON.stringify(onFailure)}; allowed: "rollback", "rethrow".`,
    );
  return { onFailure };
}

/**
 * Runs an operation between its checkpoint and its completion. How it ended is recorded before anything follows from it, so a
 * crash during the rollback leads to the rest of the rollback, and never to a second try.
 */
export async function runGuarded<Result>(
  parts: GuardParts,
  run: (operation: Operation) => Promise<Result> | Result,
  { onFailure }: Required<GuardOptions>,
): Promise<OperationOutcome<Result>> {
  const { key, name, log, outer } = parts;
  const before = await log.begin({ name, key });
  const putBack = parts.remember();
  let thrown: unknown;
  const ending = await parts.step(key, () =>
    runOperation(parts, run, (error) => {
      thrown = error;
    }),
  );
  if (ending.status === 'done' || onFailure === 'rethrow') outer?.adopt(ending.calls ?? []);
  if (ending.status === 'done') {
    await log.succeed(name, before);
    return { status: 'done', value: ending.value };
  }
  await log.fail({ name, error: ending.error }, before);
  if (onFailure === 'rethrow') throw thrown ?? errorOf(ending.error);
  const undone = await undoCalls(parts, ending.calls);
  putBack();
  log.rolledBack(name, undone);
  return { status: 'rolled_back', error: ending.error, undone };
}

/** What was begun is waited for, also when something else has failed: only then is it known what there is to take back. */
async function runOperation<Result>(
  { calls, isStopping }: GuardParts,
  run: (operation: Operation) => Promise<Result> | Result,
  onError: (error: unknown) => void,
): Promise<Ending<Result>> {
  try {
    const value = await run({ call: (tool, input) => calls.call(tool, input) });
    return { status: 'done', value, calls: await calls.end() };
  } catch (error) {
    if (isStopping()) throw error;
    onError(error);
    return { status: 'failed', error: errorText(error), calls: await calls.end() };
  }
}

/** Newest first, each once. One that fails does not keep the others from being undone, and is not tried again. */
async function undoCalls(parts: GuardParts, calls: readonly FinishedCall[]): Promise<UndoneCall[]> {
  const undone: UndoneCall[] = [];
  for (const [at, call] of [...calls.entries()].toReversed()) {
    const { tool } = call;
    const found = parts.findTool(tool);
    if (found?.undo === undefined) undone.push({ tool, status: 'kept' });
    else {
      const error = await undoCall(parts, `${parts.key}: undo ${at + 1} ${tool}`, { ...call, found });
      undone.push(error === undefined ? { tool, status: 'undone' } : { tool, status: 'failed', error });
    }
  }
  return undone;
}

/** Answers what went wrong, as recorded. */
async function undoCall(
  { step, isStopping }: GuardParts,
  key: string,
  { found, input, result }: FinishedCall & { readonly found: LoopTool },
): Promise<ErrorText | undefined> {
  return step(key, async (attempt) => {
    try {
      await found.undo?.({ input, result }, attempt);
      return undefined;
    } catch (error) {
      if (isStopping()) throw error;
      return errorText(error);
    }
  });
}
