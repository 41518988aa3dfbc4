import { create, current, type Draft, type Patches } from 'mutative';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { anything, callback, checkOptions, checkValue, type OptionChecks, signal } from '../../../core/options.ts';
import { findLeftOut, marksIn } from '../../../core/secret/left-out.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { StepAttempt } from '../../../manager/effect/effect-log.ts';
import type { DriftEvent } from '../../drift/index.ts';
import { boundedJson } from '../../drift/step/bounded.ts';
import type { Work, WorkCall } from '../../run/work.ts';
import type { AgentMind } from '../state/agent-state.ts';
import { errorOf, errorText, secretLeftOut } from '../state/error-text.ts';
import { checkSections, collectSections, type OnSectionProblem } from '../state/sections.ts';
import { checkCanWork, type LoopAgent, type LoopTool, type Turn, type TurnStepOptions } from './loop-agent.ts';
import {
  checkGuard,
  GUARD_PREFIX,
  type GuardOptions,
  type Operation,
  type OperationLog,
  type OperationOutcome,
  type RollbackParts,
  runGuarded,
} from './operation.ts';
import { copyOf, guarded, type Inside, isInsideOperation, runInside } from './turn-draft.ts';
import { TurnEnd } from './turn-end.ts';
import type { Waits } from './waits.ts';

/** What a turn works on and with. */
export type TurnParts = {
  /** The message or the task: what an earlier attempt at it has done is not done again. */
  readonly work: Work;
  /** 1, or more if an attempt failed or the process died during it. */
  readonly attempt: number;
  readonly codec: StateCodec;
  readonly agent: LoopAgent;
  readonly mind: AgentMind;
  readonly operations: OperationLog;
  /** Shows an event to the drift watch; returns whether the agent drifts. */
  readonly observe: (event: DriftEvent) => boolean;
  readonly waits: Waits;
  /** The message or task as the watch knows it: another one, once the agent has waited. */
  readonly jobOf: (isTool: boolean) => string;
  readonly isStopping: () => boolean;
  /** Hears of sections that the agent does not return. */
  readonly onProblem: OnSectionProblem;
  /** What stands in strings in place of secrets that were not stored; grows with what is replayed. */
  readonly leftOut: Set<string>;
};

const STEP: OptionChecks<TurnStepOptions> = { input: anything, signal };

/** The turn that an agent sees: a draft of its mind, and steps that are done once. */
export class TurnRun implements Turn {
  readonly #parts: TurnParts;
  readonly #state: Draft<AgentMind>;
  readonly #draft: Draft<AgentMind>;
  readonly #finalize: () => readonly [AgentMind, Patches, Patches];
  readonly #abort = new AbortController();
  readonly #operations = new Map<string, number>();
  readonly #found = new Set<string>();
  #foundSum = 0n;
  #isDrifting = false;
  readonly #end = new TurnEnd();
  /** A call that failed, until it is known whether it is made again, the agent goes on after it, or the loop tries again. */
  #failure: FailedCall | undefined;
  /** How often calls failed that have not succeeded since. */
  readonly #tries = new Map<string, number>();

  constructor(parts: TurnParts) {
    this.#parts = parts;
    const [draft, finalize] = create(parts.mind, { enablePatches: true });
    this.#draft = draft;
    this.#finalize = finalize as unknown as () => readonly [AgentMind, Patches, Patches];
    this.#state = guarded(draft, { copy: (value) => copyOf(parts.codec, value), isOver: () => this.#end.isClosed });
  }

  /** To be changed in place, between steps; nothing of it reaches the mind before the turn ends. */
  get state(): Draft<AgentMind> {
    return this.#state;
  }

  set state(_: unknown) {
    throw new InvalidInputError(
      'turn.state cannot be replaced. Change its parts: turn.state.task = ..., turn.state.context = ..., turn.state.memory = ...',
    );
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

  throwIfDrifting(): void {
    if (this.#isDrifting) this.signal.throwIfAborted();
  }

  /** Ends it from outside: what it does is not waited for any more. */
  abort(reason: DOMException): void {
    this.#abort.abort(reason);
    this.#end.giveUp();
  }

  /** The state as it is now. */
  look(): AgentMind {
    return this.#end.read(() => current(this.#draft) as AgentMind);
  }

  /**
   * What the turn has found out so far: equal for equal findings, in whatever order. Its agent may hold that without its state
   * showing it. The same again is nothing new: whoever asks and hears the same for ever stays where it is.
   */
  get findings(): string {
    return this.#foundSum.toString(16);
  }

  #find(name: string, input: unknown, outcome: unknown): void {
    const digest = this.#digestOf({ name, input, outcome });
    if (this.#found.has(digest)) return;
    this.#found.add(digest);
    this.#foundSum ^= BigInt(`0x${digest}`);
  }

  /** What has no digest is like nothing else. */
  #digestOf(finding: object): string {
    try {
      return this.#parts.codec.encode(finding).root.digest;
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      return digestText(`unlike anything: ${this.#found.size}`);
    }
  }

  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options: TurnStepOptions = {},
  ): Promise<Result> {
    checkOptions(options, STEP, 'turn.step()');
    const call = { name, ...options };
    const perform = (): Promise<Result> => this.#stepAndNote(call, run);
    // Without an input nobody knows whether it is the same step again. A prompt that grows is another one each time.
    return this.#end.during(name, () =>
      options.input === undefined ? perform() : this.#shown(call, this.#digestOf({ input: options.input }), perform),
    );
  }

  async #stepAndNote<Result>(call: WorkCall, run: (attempt: StepAttempt) => Promise<Result> | Result): Promise<Result> {
    this.signal.throwIfAborted();
    checkValue(run, callback, 'The function of turn.step()');
    const { name, input } = call;
    const ends = call.signal === undefined ? this.signal : AbortSignal.any([this.signal, call.signal]);
    try {
      const outcome = await this.#once({ ...call, signal: ends }, 'step', run);
      this.#find(name, input, outcome);
      return outcome;
    } catch (error) {
      this.#find(name, input, errorText(error));
      throw error;
    }
  }

  /** Also for a turn that was aborted: what an operation did is undone all the same. */
  async #once<Result>(
    call: WorkCall,
    place: Inside,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
  ): Promise<Result> {
    const { work, leftOut } = this.#parts;
    let isReplayed = true;
    const result = await work.call(call, (attempt) => {
      isReplayed = false;
      return runInside(place, () => run(attempt));
    });
    if (isReplayed) for (const mark of marksIn(result)) leftOut.add(mark);
    return result;
  }

  async call(tool: string, input: unknown): Promise<unknown> {
    return this.#end.during(tool, () => this.#call(tool, input));
  }

  async #call(tool: string, input: unknown): Promise<unknown> {
    const found = this.#findTool(tool);
    if (found === undefined)
      throw new InvalidInputError(
        `The agent has no tool "${tool}" (it has: ${Object.keys(this.#parts.agent.tools ?? {}).join(', ') || 'none'}).`,
      );
    this.signal.throwIfAborted();
    const call = { name: tool, input, label: labelOf({ name: tool, input }) };
    return this.#shown(call, input, () =>
      this.#stepAndNote(call, (attempt) => {
        this.#checkSecrets(call);
        return found.run(input, attempt);
      }),
    );
  }

  /**
   * Shows a call and what came of it to the drift watch. What an earlier attempt did is no news to it, and a call that failed and
   * is made again is one call, until it was tried too often.
   */
  async #shown<Result>(call: WorkCall, seen: unknown, perform: () => Promise<Result>): Promise<Result> {
    const { work, waits } = this.#parts;
    const digest = this.#digestOf({ name: call.name, seen });
    const tries = this.#tries.get(digest) ?? 0;
    const isRetry = tries > 0 && tries < MAX_TRIES;
    const isOver = work.has(call);
    const end = waits.begin();
    const about = { name: call.name, job: this.#parts.jobOf(call.label !== undefined) };
    const begun = { ...about, kind: 'call', input: seen };
    if (!isOver && !isRetry && !work.wasCalled(call)) this.observe(begun);
    try {
      const output = await perform();
      if (this.#forgetFailure(digest) && isRetry) this.observe(begun);
      if (!isOver) this.observe({ ...about, kind: 'result', output });
      return output;
    } catch (error) {
      this.#noteFailure({ ...about, kind: 'result', text: errorText(error).message, isError: true }, { error, digest });
      throw error;
    } finally {
      end();
    }
  }

  /** A call succeeded; returns whether the watch has seen that it failed before. */
  #forgetFailure(digest: string): boolean {
    this.#tries.delete(digest);
    if (this.#failure?.digest !== digest) return true;
    this.#failure = undefined;
    return false;
  }

  /** What the loop ended itself, or the agent did not wait for, did not fail, and what is known to fail and fails again is no news. */
  #noteFailure(event: DriftEvent, { error, digest }: Pick<FailedCall, 'error' | 'digest'>): void {
    if (this.signal.aborted || this.#end.isEnding) return;
    const tries = (this.#tries.get(digest) ?? 0) + 1;
    const isUnseen = this.#failure?.digest === digest;
    this.#tries.set(digest, tries);
    if (!isUnseen) this.#showFailure();
    if (isUnseen || tries === 1 || tries > MAX_TRIES) this.#failure = { event, error, digest };
  }

  #findTool(name: string): LoopTool | undefined {
    const { tools = {} } = this.#parts.agent;
    return Object.hasOwn(tools, name) ? tools[name] : undefined;
  }

  /** A tool must not act with what stands for a secret: a result of an earlier process, or a state, may hold it. */
  #checkSecrets({ name, input }: WorkCall): void {
    const place = findLeftOut(input, this.#parts.leftOut);
    if (place === undefined) return;
    throw errorOf(
      secretLeftOut(
        `Tool "${name}" was not called, because the secret at ${place} of its input is not stored. Read it inside the tool, for example from the environment.`,
      ),
    );
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
    const parts = {
      ...this.undoing,
      name,
      call: this.call.bind(this),
      nextKey: () => this.#nextKey(name),
      throwIfDrifting: () => this.throwIfDrifting(),
    };
    return this.#end.during(name, () => runGuarded(parts, run, checked));
  }

  /** What it takes to undo calls, also those of an attempt that died. */
  get undoing(): RollbackParts {
    const { work, operations, isStopping, leftOut } = this.#parts;
    return {
      work,
      findTool: this.#findTool.bind(this),
      findLeftOut: (value: unknown) => findLeftOut(value, leftOut),
      log: operations,
      isStopping,
      step: <Value>(key: string, act: (attempt: StepAttempt) => Promise<Value>, input: unknown = { operation: key }) =>
        this.#once({ name: key, input }, 'operation', act),
    };
  }

  #nextKey(name: string): string {
    const uses = (this.#operations.get(name) ?? 0) + 1;
    this.#operations.set(name, uses);
    return `${GUARD_PREFIX}${name}${uses === 1 ? '' : ` ~${uses}`}`;
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
    this.#abort.abort(new DOMException('The turn was ended because the agent drifts.', 'AbortError'));
  }

  /** Shows the watch how the turn ended. A failure after which the loop tries again, or that it brought about itself, is none. */
  fail(error: unknown, isFinal: boolean): void {
    if (this.signal.aborted || (!isFinal && this.#failure?.error === error)) this.#failure = undefined;
    else this.#showFailure();
    if (isFinal && !this.signal.aborted) this.#show({ kind: 'error', text: errorText(error).message });
  }

  /** Lets nothing else begin, and waits for what is under way. */
  end(): Promise<void> {
    return this.#end.settled();
  }

  /** Lets nobody touch the state any more. */
  close(): void {
    this.#end.isOver = true;
  }

  /** Ends the draft; returns the mind it came to, and what changed, in a form that can be applied again. */
  finish(): { readonly mind: AgentMind; readonly patches: Patches } {
    const { agent, mind: before, onProblem } = this.#parts;
    this.#showFailure();
    const [mind, patches] = this.#end.read(this.#finalize);
    freezeState(mind);
    checkSections(mind, before);
    const collected = collectSections(agent.sections, mind, onProblem);
    const replaced = (['task', 'context', 'memory'] as const).filter((name) => collected[name] !== mind[name]);
    const more = replaced.map((name) => ({ op: 'replace' as const, path: [name], value: collected[name] }));
    if (before.task?.status !== 'active') checkCanWork(agent, collected.task);
    return { mind: collected, patches: [...patches, ...more] };
  }
}

/** A call that failed, as the watch will see it. */
type FailedCall = { readonly event: DriftEvent; readonly error: unknown; readonly digest: string };

/** How often a call may be tried before that is shown as more than one: hardly any policy retries more often. */
const MAX_TRIES = 10;

/** How much of a call a note to the agent quotes. */
const MAX_LABEL_CHARS = 100;

function labelOf({ name, input }: WorkCall): string {
  const label = `${name}(${boundedJson(input) ?? ''})`;
  return label.length <= MAX_LABEL_CHARS ? label : `${label.slice(0, MAX_LABEL_CHARS - 2)}…)`;
}
