import type { Draft, Patches } from 'mutative';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { anything, callback, checkOptions, checkValue, type OptionChecks, signal } from '../../../core/options.ts';
import { findSecretRef } from '../../../core/secret/left-out.ts';
import type { StepAttempt } from '../../../manager/effect/effect-log.ts';
import type { DriftEvent } from '../../drift/index.ts';
import { boundedJson } from '../../drift/step/bounded-json.ts';
import type { Work, WorkCall } from '../../run/work.ts';
import type { AgentMind } from '../state/agent-state.ts';
import { errorOf, errorText, secretLeftOut } from '../state/error-text.ts';
import { checkSections, collectSections, type OnSectionProblem } from '../state/sections.ts';
import type { Findings } from './findings.ts';
import { checkCanWork, type LoopAgent, type LoopTool, type Turn, type TurnStepOptions } from './loop-agent.ts';
import {
  checkGuard,
  type GuardOptions,
  OpenCalls,
  type Operation,
  type OperationLog,
  type OperationOutcome,
  runGuarded,
} from './operation.ts';
import { formatStepRecord, isInsideOperation, readStepRecord, runInside, TurnDraft } from './turn-draft.ts';

/** What a turn works on and with. */
export type TurnParts = {
  /** The message or the task: what an earlier attempt at it has done is not done again. */
  readonly work: Work;
  /** 1, or more if an attempt failed or the process died during it. */
  readonly attempt: number;
  readonly codec: StateCodec;
  readonly agent: LoopAgent;
  readonly mind: AgentMind;
  /** What it found out so far; grows. */
  readonly findings: Findings;
  readonly operations: OperationLog;
  /** Shows an event to the drift watch; returns whether the agent drifts. */
  readonly observe: (event: DriftEvent) => boolean;
  readonly isStopping: () => boolean;
  /** Hears of sections that the agent does not return. */
  readonly onProblem?: OnSectionProblem;
  /** The name of the turn in logs of older versions, and the results of its steps in a checkpoint of one. */
  readonly formerly: { readonly name: string; readonly results: ReadonlyMap<string, unknown> };
};

const STEP: OptionChecks<TurnStepOptions> = { input: anything, signal };

/** Names that older versions gave to other steps of a turn. */
const FORMERLY_TAKEN = /^choose$| ~\d+$|: undo \d+ /;

/** The turn that an agent sees: a draft of its mind, and steps that are done once. */
export class TurnRun implements Turn {
  readonly #parts: TurnParts;
  readonly #draft: TurnDraft;
  readonly #abort = new AbortController();
  readonly #uses = new Map<string, number>();
  #isDrifting = false;
  /** A call that failed, until it is known whether the agent goes on after it or the loop tries again. */
  #failure: { readonly event: DriftEvent; readonly error: unknown } | undefined;

  constructor(parts: TurnParts) {
    this.#parts = parts;
    this.#draft = new TurnDraft(parts.mind, parts.codec);
  }

  get state(): Draft<AgentMind> {
    return this.#draft.state;
  }

  get attempt(): number {
    return this.#parts.attempt;
  }

  get idempotencyKey(): string {
    return this.#parts.work.key;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get isDrifting(): boolean {
    return this.#isDrifting;
  }

  abort(reason: DOMException): void {
    this.#abort.abort(reason);
  }

  /** The state as it is now. */
  look(): AgentMind {
    return this.#draft.look();
  }

  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options: TurnStepOptions = {},
  ): Promise<Result> {
    checkOptions(options, STEP, 'turn.step()');
    return this.#stepAndNote({ name, ...options }, run);
  }

  async #stepAndNote<Result>(call: WorkCall, run: (attempt: StepAttempt) => Promise<Result> | Result): Promise<Result> {
    this.signal.throwIfAborted();
    checkValue(run, callback, 'The function of turn.step()');
    const { findings } = this.#parts;
    const ends = call.signal === undefined ? this.signal : AbortSignal.any([this.signal, call.signal]);
    try {
      const outcome = await this.#once({ ...call, signal: ends }, run);
      findings.add({ ...call, outcome });
      return outcome;
    } catch (error) {
      findings.add({ ...call, outcome: errorText(error) });
      throw error;
    }
  }

  /** Also for a turn that was aborted: what an operation did is undone all the same. */
  async #once<Result>(call: WorkCall, run: (attempt: StepAttempt) => Promise<Result> | Result): Promise<Result> {
    const { work, formerly } = this.#parts;
    const key = this.#formerKey(call.name);
    const perform = async (attempt: StepAttempt): Promise<unknown> =>
      formerly.results.has(key)
        ? formerly.results.get(key)
        : formatStepRecord(await runInside('step', () => run(attempt)));
    const recorded = await work.call({ ...call, formerly: `${formerly.name}: ${key}` }, perform);
    return readStepRecord(recorded, this.state) as Result;
  }

  #formerKey(name: string): string {
    const uses = this.#count(name);
    return uses === 1 && !FORMERLY_TAKEN.test(name) ? name : `${name} ~${uses}`;
  }

  #count(name: string): number {
    const uses = (this.#uses.get(name) ?? 0) + 1;
    this.#uses.set(name, uses);
    return uses;
  }

  /** A call that an earlier attempt made is no news to the drift watch: what ended is not shown again, and the rest is tried again. */
  async call(tool: string, input: unknown): Promise<unknown> {
    const found = this.#findTool(tool);
    if (found === undefined)
      throw new InvalidInputError(
        `The agent has no tool "${tool}" (it has: ${Object.keys(this.#parts.agent.tools ?? {}).join(', ') || 'none'}).`,
      );
    this.signal.throwIfAborted();
    const { work } = this.#parts;
    const call = { name: tool, input };
    const isOver = work.has(call);
    if (!isOver && !work.wasCalled(call)) this.observe({ kind: 'call', ...call });
    try {
      const output = await this.#stepAndNote({ ...call, label: labelOf(call) }, (attempt) => {
        checkSecrets(call);
        return found.run(input, attempt);
      });
      if (!isOver) this.observe({ kind: 'result', name: tool, output });
      return output;
    } catch (error) {
      const event = { kind: 'result', name: tool, text: errorText(error).message, isError: true };
      // What the loop ended itself did not fail.
      if (!this.signal.aborted) this.#failure = { event, error };
      throw error;
    }
  }

  #findTool(name: string): LoopTool | undefined {
    const { tools = {} } = this.#parts.agent;
    return Object.hasOwn(tools, name) ? tools[name] : undefined;
  }

  async guard<Result>(
    name: string,
    run: (operation: Operation) => Promise<Result> | Result,
    options?: GuardOptions,
  ): Promise<OperationOutcome<Result>> {
    const checked = checkGuard(name, run, options);
    if (isInsideOperation())
      throw new InvalidInputError(
        `The operation "${name}" is inside another one. Make its calls through the outer operation, or run one after the other.`,
      );
    const { work, operations, isStopping } = this.#parts;
    return runGuarded(
      {
        name,
        work,
        calls: new OpenCalls(this.call.bind(this)),
        nextKey: () => {
          const uses = this.#count(`operation ${name}`);
          return uses === 1 ? `guard ${name}` : `guard ${name} ~${uses}`;
        },
        findTool: this.#findTool.bind(this),
        log: operations,
        isStopping,
        step: (key, act) =>
          this.#once({ name: key, input: { operation: key } }, (attempt) => runInside('operation', () => act(attempt))),
      },
      run,
      checked,
    );
  }

  /** What is no event is not shown. */
  observe(event: DriftEvent): void {
    if (typeof event !== 'object' || event === null) return;
    this.#showFailure();
    this.#show(event);
  }

  #showFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) this.#show(failure.event);
  }

  #show(event: DriftEvent): void {
    if (!this.#parts.observe(event) || this.#isDrifting) return;
    this.#isDrifting = true;
    this.abort(new DOMException('The turn was ended because the agent drifts.', 'AbortError'));
  }

  /** Shows the watch how the turn ended. A failure after which the loop tries again, or that it brought about itself, is none. */
  fail(error: unknown, isFinal: boolean): void {
    if (this.signal.aborted || (!isFinal && this.#failure?.error === error)) this.#failure = undefined;
    else this.#showFailure();
    if (isFinal && !this.signal.aborted) this.#show({ kind: 'error', text: errorText(error).message });
  }

  /** Ends the draft; returns the mind it came to, and what changed, in a form that can be applied again. */
  finish(): { readonly mind: AgentMind; readonly patches: Patches } {
    const { agent, mind: before, onProblem } = this.#parts;
    this.#showFailure();
    const { mind, patches } = this.#draft.finish();
    freezeState(mind);
    checkSections(mind, before);
    const collected = collectSections(agent.sections, mind, onProblem);
    const replaced = (['task', 'context', 'memory'] as const).filter((name) => collected[name] !== mind[name]);
    const more = replaced.map((name) => ({ op: 'replace' as const, path: [name], value: collected[name] }));
    if (before.task?.status !== 'active') checkCanWork(agent, collected.task);
    return { mind: collected, patches: [...patches, ...more] };
  }
}

/** A tool must not act with what stands for a secret: a result of an earlier process, or a state, may hold it. */
function checkSecrets({ name, input }: WorkCall): void {
  const place = findSecretRef(input);
  if (place === undefined) return;
  throw errorOf(
    secretLeftOut(
      `Tool "${name}" was not called, because the secret at ${place} of its input is not stored. Read it inside the tool, for example from the environment.`,
    ),
  );
}

/** How much of a call a note to the agent quotes. */
const MAX_LABEL_CHARS = 100;

function labelOf({ name, input }: WorkCall): string {
  const label = `${name}(${boundedJson(input) ?? ''})`;
  return label.length <= MAX_LABEL_CHARS ? label : `${label.slice(0, MAX_LABEL_CHARS - 2)}…)`;
}
