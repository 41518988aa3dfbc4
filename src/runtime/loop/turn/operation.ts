import { ClosedError } from '../../../core/errors.ts';
import { callback, checkOptions, checkValue, type OptionChecks, oneOf } from '../../../core/options.ts';
import { type CheckpointId, name } from '../../../core/record/id.ts';
import type { StepAttempt } from '../../../manager/effect/effect-log.ts';
import { type InputDigest, isSameInput } from '../../../manager/effect/input-digest.ts';
import type { MadeCall, Work } from '../../run/work.ts';
import { type ErrorText, errorOf, errorText, secretLeftOut } from '../state/error-text.ts';
import type { LoopTool, Turn } from './loop-agent.ts';

/** What to do when a guarded operation fails. */
export type GuardOptions = {
  /** `rollback` (default): undo its calls, and return so. `rethrow`: throw what went wrong. */
  readonly onFailure?: 'rollback' | 'rethrow' | undefined;
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

/** What a guard needs of the turn and the loop around it. */
export type GuardParts = {
  readonly name: string;
  /** The message or the task that the operation is part of. */
  readonly work: Work;
  /** A name for the operation, unique in its attempt. */
  readonly nextKey: () => string;
  readonly step: <Result>(
    key: string,
    run: (attempt: StepAttempt) => Promise<Result>,
    input?: unknown,
  ) => Promise<Result>;
  readonly call: Turn['call'];
  readonly findTool: (name: string) => LoopTool | undefined;
  /** The first place of a value where a secret was left out. */
  readonly findLeftOut: (value: unknown) => string | undefined;
  /** Whether the loop is stopping: an operation that ends for that reason goes on after the restart. */
  readonly isStopping: () => boolean;
  /** An operation in which the agent drifts has failed, and so has its turn. */
  readonly throwIfDrifting: () => void;
  readonly log: OperationLog;
};

/** Where the loop keeps account of guarded operations: checkpoints, marks and events. */
export interface OperationLog {
  begin(operation: { readonly name: string; readonly key: string }): Promise<CheckpointId>;
  succeed(name: string, before: CheckpointId): Promise<void>;
  fail(operation: { readonly name: string; readonly error: ErrorText }, before: CheckpointId): Promise<void>;
  rolledBack(name: string, undone: readonly UndoneCall[]): void;
}

/** A call that succeeded, with what it takes to take it back. */
type FinishedCall = { readonly tool: string; readonly input: unknown; readonly result: unknown };

/** Recorded. */
type Ending<Result> = {
  /** At the work: a later one tries again what failed. */
  readonly attempt: number;
  /** The checkpoint before it. */
  readonly before: CheckpointId;
} & (
  | { readonly status: 'done'; readonly value: Result }
  | { readonly status: 'failed'; readonly error: ErrorText; readonly calls: readonly FinishedCall[] }
);

/** What the names of the steps begin with that hold how operations ended. */
export const GUARD_PREFIX = 'guard ';
/** What stands between the name of an operation and the tool it is about to call. */
const NOTED = ': call ';

const GUARD: OptionChecks<GuardOptions> = { onFailure: oneOf('rollback', 'rethrow') };

/** Checks what a guard was given, before there is anything to take back. */
export function checkGuard(operation: unknown, run: unknown, options: GuardOptions = {}): Required<GuardOptions> {
  checkValue(operation, name, 'The name of turn.guard()');
  checkValue(run, callback, 'The function of turn.guard()');
  checkOptions(options, GUARD, 'turn.guard()');
  return { onFailure: options.onFailure ?? 'rollback' };
}

/**
 * Runs an operation between its checkpoint and its completion. How it ended is recorded before anything follows from it, so a
 * crash during the rollback leads to the rest of the rollback, and never to a second try. Another attempt at the work is one.
 */
export async function runGuarded<Result>(
  parts: GuardParts,
  run: (operation: Operation) => Promise<Result> | Result,
  { onFailure }: Required<GuardOptions>,
): Promise<OperationOutcome<Result>> {
  const { name, log, work } = parts;
  const key = parts.nextKey();
  let thrown: unknown;
  const ending = await parts.step(key, () =>
    runOperation(parts, key, { run, onFailure, onError: (error) => (thrown = error) }),
  );
  const { before } = ending;
  if (ending.status === 'done') {
    await log.succeed(name, before);
    return { status: 'done', value: ending.value };
  }
  if (ending.attempt < work.attempt) {
    if (onFailure === 'rollback') await undoCalls(parts, key, ending.calls);
    return runGuarded(parts, run, { onFailure });
  }
  await log.fail({ name, error: ending.error }, before);
  if (onFailure === 'rethrow') throw thrown ?? errorOf(ending.error);
  const undone = await undoCalls(parts, key, ending.calls);
  log.rolledBack(name, undone);
  parts.throwIfDrifting();
  return { status: 'rolled_back', error: ending.error, undone };
}

type Running<Result> = {
  readonly run: (operation: Operation) => Promise<Result> | Result;
  readonly onError: (error: unknown) => void;
} & Required<GuardOptions>;

/** What was begun is waited for, also when something else has failed: only then is it known what there is to take back. */
async function runOperation<Result>(
  parts: GuardParts,
  key: string,
  { run, onError, onFailure }: Running<Result>,
): Promise<Ending<Result>> {
  const { name, isStopping, throwIfDrifting, log, work } = parts;
  const { attempt } = work;
  const before = await log.begin({ name, key });
  const calls = new OpenCalls((tool, input) => callNoted(parts, key, { tool, input }));
  try {
    const value = await run({ call: calls.call });
    await calls.end();
    throwIfDrifting();
    work.digestOf(value); // what cannot be saved is a failure like any other
    return { status: 'done', value, attempt, before };
  } catch (error) {
    if (isStopping()) throw error;
    onError(error);
    const made = await calls.end();
    // What is rethrown takes nothing back.
    const undoable = onFailure === 'rollback' ? [...(await callsLeft(work, key)), ...made] : [];
    return { status: 'failed', error: errorText(error), calls: undoable, attempt, before };
  }
}

/** Makes a call, and notes before that there is one to be undone: the attempt that fails may be another, which does not make it. */
async function callNoted(
  { findTool, step, call }: GuardParts,
  key: string,
  noted: Pick<FinishedCall, 'tool' | 'input'>,
): Promise<unknown> {
  const { tool, input } = noted;
  const isUndoable = findTool(tool)?.undo !== undefined;
  if (isUndoable) await step(`${key}${NOTED}${tool}`, async () => noted, { operation: key, input });
  return call(tool, input);
}

/** The calls of an attempt that died in the operation which ended, and which this attempt did not ask for. */
async function callsLeft(work: Work, key: string): Promise<FinishedCall[]> {
  await work.recall();
  const digestOf = (value: unknown): InputDigest => work.digestOf(value);
  const { asked } = work;
  const left = withoutRolledBack(work.made, digestOf).filter((call) => call.isOver && !asked.has(call.key));
  const found = new Set<MadeCall>();
  return left.flatMap(({ name, result }) => {
    if (!name.startsWith(`${key}${NOTED}`)) return [];
    const { tool, input } = result as FinishedCall;
    const digest = digestOf(input);
    const isIt = (one: MadeCall): boolean =>
      one.name === tool && one.digest !== null && isSameInput(one.digest, digest) && !found.has(one);
    const call = left.find(isIt);
    if (call === undefined) return [];
    found.add(call);
    return [{ tool, input, result: call.result }];
  });
}

/** Whether a call is no call of the agent, but notes that an operation is about to make one. */
export function isNoteOfCall({ name }: Pick<MadeCall, 'name'>): boolean {
  return name.startsWith(GUARD_PREFIX) && name.includes(NOTED);
}

/** Finishes rollbacks that an attempt died in; one whose undo ended the process as often as `maxAttempts` is left to a person. */
export async function finishRollbacks(parts: RollbackParts, maxAttempts: number): Promise<void> {
  const open = (tool: string): boolean => parts.findTool(tool)?.undo !== undefined;
  for (const { key, calls } of openRollbacks(parts.work.made, open))
    parts.log.rolledBack(key.slice(GUARD_PREFIX.length), await undoCalls({ ...parts, maxAttempts }, key, calls));
}

/** What it takes to undo calls. */
export type RollbackParts = Pick<GuardParts, 'work' | 'step' | 'findTool' | 'findLeftOut' | 'isStopping' | 'log'>;

type Undoing = RollbackParts & { readonly maxAttempts?: number };

/** Newest first, each once. One that fails does not keep the others from being undone, and is not tried again. */
async function undoCalls(parts: Undoing, key: string, calls: readonly FinishedCall[]): Promise<UndoneCall[]> {
  const undone: UndoneCall[] = [];
  for (const [at, call] of [...calls.entries()].toReversed()) {
    const { tool, input } = call;
    const { undo } = parts.findTool(tool) ?? {};
    if (undo === undefined) undone.push({ tool, status: 'kept' });
    else {
      const undoing = undoName(key, at, tool);
      const error = await parts.step(undoing, (attempt) => undoCall(parts, call, attempt));
      if (error === undefined) parts.work.undo({ name: tool, input }, undoing);
      undone.push(error === undefined ? { tool, status: 'undone' } : { tool, status: 'failed', error });
    }
  }
  return undone;
}

function undoName(key: string, at: number, tool: string): string {
  return `${key}: undo ${at + 1} ${tool}`;
}

/** Of the calls of a message or task, those that stand: operations that failed, and what they took back, may be done anew. */
export function withoutRolledBack(
  calls: readonly MadeCall[],
  digestOf: (value: unknown) => InputDigest,
): readonly MadeCall[] {
  const standing = new Set(calls);
  const find = (isIt: (call: MadeCall) => boolean): MadeCall | undefined => [...standing].find(isIt);
  for (const call of calls) {
    const failed = call.digest === digestOf({ operation: call.name }) ? failedCallsOf(call) : undefined;
    if (failed === undefined) continue;
    standing.delete(call);
    for (const [at, { tool, input }] of failed.entries()) {
      const name = undoName(call.name, at, tool);
      const undo = find((one) => one.work === call.work && one.name === name && one.isOver);
      if (undo === undefined) continue;
      standing.delete(undo);
      const digest = digestOf(input);
      const undone = find((one) => one.name === tool && one.digest !== null && isSameInput(one.digest, digest));
      if (undone !== undefined && undo.result === undefined) standing.delete(undone);
    }
  }
  return [...standing];
}

/** The calls of an operation that failed; undefined if it did not. */
function failedCallsOf({ name, isOver, result }: MadeCall): readonly FinishedCall[] | undefined {
  if (!isOver || !name.startsWith(GUARD_PREFIX)) return undefined;
  const ending = result as Partial<Ending<unknown>> | undefined;
  return ending?.status === 'failed' ? ending.calls : undefined;
}

/** The operations that failed and were to be taken back, but for calls whose undo has not ended. */
export function openRollbacks(
  calls: readonly MadeCall[],
  hasUndo: (tool: string) => boolean,
): readonly { readonly key: string; readonly calls: readonly FinishedCall[] }[] {
  const isOver = (name: string, work: string): boolean =>
    calls.some((call) => call.work === work && call.name === name && call.isOver);
  return calls.flatMap((call) => {
    const { name: key, work } = call;
    const failed = failedCallsOf(call) ?? [];
    const isOpen = failed.some(({ tool }, at) => hasUndo(tool) && !isOver(undoName(key, at, tool), work));
    return isOpen ? [{ key, calls: failed }] : [];
  });
}

/** Returns what went wrong. */
async function undoCall(
  { findTool, findLeftOut, isStopping, maxAttempts = Number.POSITIVE_INFINITY }: Undoing,
  { tool, input, result }: FinishedCall,
  attempt: StepAttempt,
): Promise<ErrorText | undefined> {
  if (attempt.attempt > maxAttempts) throw new ClosedError(`The process ended while "${tool}" was undone.`);
  const place = findLeftOut({ input, result });
  if (place !== undefined)
    return secretLeftOut(
      `The secret at ${place} of the call is not stored, so the call cannot be undone. Undo it by hand.`,
    );
  try {
    await findTool(tool)?.undo?.({ input, result }, attempt);
    return undefined;
  } catch (error) {
    if (isStopping()) throw error;
    return errorText(error);
  }
}

/** The calls of one guarded operation: those under way, and those that succeeded, in the order in which they did. */
class OpenCalls {
  readonly #call: Turn['call'];
  readonly #open = new Set<Promise<unknown>>();
  readonly #finished: FinishedCall[] = [];
  #isOver = false;

  constructor(call: Turn['call']) {
    this.#call = call;
  }

  /** Refused once the operation has ended: nobody would take the call back. */
  readonly call = async (tool: string, input: unknown): Promise<unknown> => {
    if (this.#isOver) throw new ClosedError(`The operation has ended, so "${tool}" was not called.`);
    const work = this.#call(tool, input);
    const noted = work.then((result) => void this.#finished.push({ tool, input, result }));
    const forget = (): void => void this.#open.delete(noted);
    this.#open.add(noted);
    noted.then(forget, forget);
    await noted;
    return work;
  };

  /** Lets no other call begin and waits for those under way; returns those that succeeded. */
  async end(): Promise<readonly FinishedCall[]> {
    this.#isOver = true;
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
    return this.#finished;
  }
}
