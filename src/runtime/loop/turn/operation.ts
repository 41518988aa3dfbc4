import { ClosedError, InvalidInputError } from '../../../core/errors.ts';
import { callback, checkOptions, checkValue, type OptionChecks, oneOf } from '../../../core/options.ts';
import { type CheckpointId, name } from '../../../core/record/id.ts';
import { findLeftOut } from '../../../core/secret/left-out.ts';
import { UnderWay } from '../../../core/time/under-way.ts';
import { type InputDigest, isSameInput } from '../../../manager/effect/input-digest.ts';
import type { StepAttempt } from '../../../manager/effect/step.ts';
import type { MadeCall, WorkCall } from '../../run/work.ts';
import { type ErrorText, errorOf, errorText, secretLeftOut } from '../state/error-text.ts';
import type { LoopTool, Turn } from './loop-agent.ts';
import { isInsideOperation } from './turn-draft.ts';
import type { TurnParts } from './turn-run.ts';

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

/** The turn around operations. */
type OperationParts = Pick<TurnParts, 'live' | 'work' | 'log' | 'isStopping'> & {
  readonly findTool: (name: string) => LoopTool | undefined;
  readonly call: Turn['call'];
  /** Does something of an operation once for all attempts. */
  readonly once: <Result>(call: WorkCall, run: (attempt: StepAttempt) => Promise<Result>) => Promise<Result>;
  /** An operation in which the agent drifts has failed, and so has its turn. */
  readonly throwIfDrifting: () => void;
};

type Run<Result> = (operation: Operation) => Promise<Result> | Result;

/** A call that succeeded, with what it takes to take it back. */
type FinishedCall = { readonly tool: string; readonly input: unknown; readonly result: unknown };

/** Recorded. */
type Ending<Result> = {
  /** At the work: a later one tries again what failed. */
  readonly attempt: number;
  readonly before: CheckpointId;
} & (
  | { readonly status: 'done'; readonly value: Result }
  | { readonly status: 'failed'; readonly error: ErrorText; readonly calls: readonly FinishedCall[] }
);

/** What the names of the steps begin with that hold how operations ended. */
const PREFIX = 'guard ';
/** What stands between the name of an operation and the tool it is about to call. */
const NOTED = ': call ';

const GUARD: OptionChecks<GuardOptions> = { onFailure: oneOf('rollback', 'rethrow') };

/** The guarded operations of one turn. */
export class Operations {
  readonly #parts: OperationParts;
  /** How often each name was used in this attempt. */
  readonly #uses = new Map<string, number>();

  constructor(parts: OperationParts) {
    this.#parts = parts;
  }

  /** Checks what a guard was given, before there is anything to take back. */
  check(operation: unknown, run: unknown, options: GuardOptions): void {
    checkValue(operation, name, 'The name of turn.guard()');
    checkValue(run, callback, 'The function of turn.guard()');
    checkOptions(options, GUARD, 'turn.guard()');
    if (isInsideOperation())
      throw new InvalidInputError(
        `The operation "${operation}" is inside another one. Make its calls through the outer operation, or run one after the other.`,
      );
  }

  /**
   * Runs an operation between its checkpoint and its completion. How it ended is recorded before anything follows from it, so a
   * crash during the rollback leads to the rest of the rollback, and never to a second try. Another attempt at the work is one.
   */
  async guard<Result>(
    name: string,
    run: Run<Result>,
    { onFailure = 'rollback' }: GuardOptions,
  ): Promise<OperationOutcome<Result>> {
    const { log, work, throwIfDrifting, isStopping } = this.#parts;
    const key = this.#nextKey(name);
    const calls = new OperationCalls((tool, input) => this.#callNoted(key, { tool, input }));
    let thrown: unknown;
    const ending = await this.#step(key, async (): Promise<Ending<Result>> => {
      const before = await log.begin({ name, key });
      try {
        const value = await run(calls);
        await calls.end();
        throwIfDrifting();
        work.digestOf(value); // what cannot be saved is a failure like any other
        return { status: 'done', value, attempt: work.attempt, before };
      } catch (error) {
        if (isStopping()) throw error; // it goes on after the restart
        thrown = error;
        const made = await calls.end();
        // What is rethrown takes nothing back.
        const undoable = onFailure === 'rollback' ? [...(await this.#callsLeft(key)), ...made] : [];
        return { status: 'failed', error: errorText(error), calls: undoable, attempt: work.attempt, before };
      }
    });
    if (ending.status === 'done') {
      await log.succeed(name, ending.before);
      return { status: 'done', value: ending.value };
    }
    if (ending.attempt < work.attempt) {
      if (onFailure === 'rollback') await this.#undoAll(key, ending.calls);
      return this.guard(name, run, { onFailure });
    }
    await log.fail(name, ending.error, ending.before);
    if (onFailure === 'rethrow') throw thrown ?? errorOf(ending.error);
    const undone = await this.#undoAll(key, ending.calls);
    log.rolledBack(name, undone);
    throwIfDrifting();
    return { status: 'rolled_back', error: ending.error, undone };
  }

  /** Finishes rollbacks that an attempt died in; one whose undo ended the process as often as `maxAttempts` is left to a person. */
  async finishRollbacks(maxAttempts: number): Promise<void> {
    const { work, log, findTool } = this.#parts;
    for (const { name, key, calls } of openRollbacks(work.made, findTool))
      log.rolledBack(name, await this.#undoAll(key, calls, maxAttempts));
  }

  #nextKey(name: string): string {
    const uses = (this.#uses.get(name) ?? 0) + 1;
    this.#uses.set(name, uses);
    return `${PREFIX}${name}${uses === 1 ? '' : ` ~${uses}`}`;
  }

  #step<Result>(
    key: string,
    run: (attempt: StepAttempt) => Promise<Result>,
    input: unknown = { operation: key },
  ): Promise<Result> {
    return this.#parts.once({ name: key, input }, run);
  }

  /** Makes a call, and notes before that there is one to be undone: the attempt that fails may be another, which does not make it. */
  async #callNoted(key: string, noted: Pick<FinishedCall, 'tool' | 'input'>): Promise<unknown> {
    const { tool, input } = noted;
    const { findTool, call } = this.#parts;
    if (hasUndo(findTool, tool))
      await this.#step(`${key}${NOTED}${tool}`, async () => noted, { operation: key, input });
    return call(tool, input);
  }

  /** The calls of an attempt that died in the operation which ended, and which this attempt did not ask for. */
  async #callsLeft(key: string): Promise<FinishedCall[]> {
    const { work } = this.#parts;
    await work.recall();
    const { asked } = work;
    const digestOf = (value: unknown): InputDigest => work.digestOf(value);
    const left = new Set(withoutRolledBack(work.made, digestOf).filter((call) => call.isOver && !asked.has(call.key)));
    return [...left].flatMap(({ name, result }) => {
      if (!name.startsWith(`${key}${NOTED}`)) return [];
      const { tool, input } = result as FinishedCall;
      const call = findCall(left, { tool, digest: digestOf(input) });
      if (call === undefined) return [];
      left.delete(call);
      return [{ tool, input, result: call.result }];
    });
  }

  /** Newest first, each once. One that fails does not keep the others from being undone, and is not tried again. */
  async #undoAll(key: string, calls: readonly FinishedCall[], maxAttempts = Infinity): Promise<UndoneCall[]> {
    const { work, findTool } = this.#parts;
    const undone: UndoneCall[] = [];
    for (const [at, call] of [...calls.entries()].toReversed()) {
      const { tool, input } = call;
      if (!hasUndo(findTool, tool)) {
        undone.push({ tool, status: 'kept' });
        continue;
      }
      const undoing = undoName(key, at, tool);
      const error = await this.#step(undoing, async (attempt) => {
        if (attempt.attempt > maxAttempts) throw new ClosedError(`The process ended while "${tool}" was undone.`);
        return this.#undo(call, attempt);
      });
      if (error === undefined) work.undo({ name: tool, input }, undoing);
      undone.push(error === undefined ? { tool, status: 'undone' } : { tool, status: 'failed', error });
    }
    return undone;
  }

  /** Returns what went wrong. */
  async #undo({ tool, input, result }: FinishedCall, attempt: StepAttempt): Promise<ErrorText | undefined> {
    const { findTool, live, isStopping } = this.#parts;
    const place = findLeftOut({ input, result }, live.leftOut);
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
}

class OperationCalls implements Operation {
  readonly #call: Turn['call'];
  readonly #underWay = new UnderWay();
  readonly #finished: FinishedCall[] = [];
  #isOver = false;

  constructor(call: Turn['call']) {
    this.#call = call;
  }

  /** Refused once the operation has ended: nobody would take the call back. */
  readonly call = async (tool: string, input: unknown): Promise<unknown> => {
    if (this.#isOver) throw new ClosedError(`The operation has ended, so "${tool}" was not called.`);
    const noted = this.#call(tool, input).then((result) => {
      this.#finished.push({ tool, input, result });
      return result;
    });
    return this.#underWay.add(noted);
  };

  /** Lets no other call begin and waits for those under way, of which some may have to be taken back; returns those that succeeded. */
  async end(): Promise<readonly FinishedCall[]> {
    this.#isOver = true;
    await this.#underWay.settled();
    return this.#finished;
  }
}

function hasUndo(findTool: OperationParts['findTool'], tool: string): boolean {
  return findTool(tool)?.undo !== undefined;
}

function undoName(key: string, at: number, tool: string): string {
  return `${key}: undo ${at + 1} ${tool}`;
}

function findCall(
  calls: Iterable<MadeCall>,
  { tool, digest }: { readonly tool: string; readonly digest: InputDigest },
): MadeCall | undefined {
  return [...calls].find((one) => one.name === tool && one.digest !== null && isSameInput(one.digest, digest));
}

/** Whether a call is no call of the agent, but notes that an operation is about to make one. */
export function isNoteOfCall({ name }: Pick<MadeCall, 'name'>): boolean {
  return name.startsWith(PREFIX) && name.includes(NOTED);
}

/** Of the calls of a message or task, those that stand: operations that failed, and what they took back, may be done anew. */
export function withoutRolledBack(
  calls: readonly MadeCall[],
  digestOf: (value: unknown) => InputDigest,
): readonly MadeCall[] {
  const standing = new Set(calls);
  for (const call of calls) {
    const failed = call.digest === digestOf({ operation: call.name }) ? failedCallsOf(call) : undefined;
    if (failed === undefined) continue;
    standing.delete(call);
    for (const [at, { tool, input }] of failed.entries()) {
      const name = undoName(call.name, at, tool);
      const undo = [...standing].find((one) => one.work === call.work && one.name === name && one.isOver);
      if (undo === undefined) continue;
      standing.delete(undo);
      const undone = findCall(standing, { tool, digest: digestOf(input) });
      if (undone !== undefined && undo.result === undefined) standing.delete(undone);
    }
  }
  return [...standing];
}

/** The calls of an operation that failed; undefined if it did not. */
function failedCallsOf({ name, isOver, result }: MadeCall): readonly FinishedCall[] | undefined {
  if (!isOver || !name.startsWith(PREFIX)) return undefined;
  const ending = result as Partial<Ending<unknown>> | undefined;
  return ending?.status === 'failed' ? ending.calls : undefined;
}

/** The operations that failed and were to be taken back, but for calls whose undo has not ended. */
export function openRollbacks(calls: readonly MadeCall[], findTool: OperationParts['findTool']) {
  const isOver = (name: string, work: string): boolean =>
    calls.some((call) => call.work === work && call.name === name && call.isOver);
  return calls.flatMap((call) => {
    const { name: key, work } = call;
    const failed = failedCallsOf(call) ?? [];
    const isOpen = failed.some(({ tool }, at) => hasUndo(findTool, tool) && !isOver(undoName(key, at, tool), work));
    return isOpen ? [{ name: key.slice(PREFIX.length), key, calls: failed }] : [];
  });
}
