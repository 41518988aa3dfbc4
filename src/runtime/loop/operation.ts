import type { CheckpointId } from '../../core/id.ts';
import { type ErrorText, errorText } from './error-text.ts';
import type { LoopTool, Turn } from './loop-agent.ts';

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
  readonly call: Turn['call'];
  readonly tools: { readonly [name: string]: LoopTool };
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

type Call = { readonly tool: string; readonly input: unknown; readonly result: unknown };
type Ending<Result> =
  | { readonly status: 'done'; readonly value: Result }
  | { readonly status: 'failed'; readonly error: ErrorText; readonly calls: readonly Call[] };

/**
 * Runs an operation between its checkpoint and its completion. How it ended is recorded before anything follows from it, so a
 * crash during the rollback leads to the rest of the rollback, and never to a second try.
 */
export async function runGuarded<Result>(
  parts: GuardParts,
  run: (operation: Operation) => Promise<Result> | Result,
  { onFailure = 'rollback' }: GuardOptions,
): Promise<OperationOutcome<Result>> {
  const { key, name, log } = parts;
  const before = await log.begin({ name, key });
  const putBack = parts.remember();
  let thrown: unknown;
  const ending = await parts.step(key, () =>
    runOperation(parts, run, (error) => {
      thrown = error;
    }),
  );
  if (ending.status === 'done') {
    await log.succeed(name, before);
    return ending;
  }
  await log.fail({ name, error: ending.error }, before);
  if (onFailure === 'rethrow')
    throw thrown ?? Object.assign(new Error(ending.error.message), { name: ending.error.name });
  const undone = await undoCalls(parts, ending.calls);
  putBack();
  log.rolledBack(name, undone);
  return { status: 'rolled_back', error: ending.error, undone };
}

async function runOperation<Result>(
  { call, isStopping }: GuardParts,
  run: (operation: Operation) => Promise<Result> | Result,
  onError: (error: unknown) => void,
): Promise<Ending<Result>> {
  const calls: Call[] = [];
  const callAndNote = async (tool: string, input: unknown) => {
    const result = await call(tool, input);
    calls.push({ tool, input, result });
    return result;
  };
  try {
    return { status: 'done', value: await run({ call: callAndNote }) };
  } catch (error) {
    if (isStopping()) throw error;
    onError(error);
    return { status: 'failed', error: errorText(error), calls };
  }
}

/** Newest first, each once. One that fails does not keep the others from being undone. */
async function undoCalls({ step, key, tools }: GuardParts, calls: readonly Call[]): Promise<UndoneCall[]> {
  const undone: UndoneCall[] = [];
  for (const [at, { tool, input, result }] of [...calls.entries()].toReversed()) {
    const undo = tools[tool]?.undo;
    if (undo === undefined) {
      undone.push({ tool, status: 'kept' });
      continue;
    }
    try {
      await step(`${key}: undo ${at + 1} ${tool}`, async (attempt) => void (await undo({ input, result }, attempt)));
      undone.push({ tool, status: 'undone' });
    } catch (error) {
      undone.push({ tool, status: 'failed', error: errorText(error) });
    }
  }
  return undone;
}
