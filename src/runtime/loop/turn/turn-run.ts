import { create, current, type Draft, type Patches } from 'mutative';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { ClosedError, InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { anything, callback, checkOptions, checkValue, type OptionChecks, signal } from '../../../core/options.ts';
import { findLeftOut, marksIn } from '../../../core/secret/left-out.ts';
import { UnderWay } from '../../../core/time/under-way.ts';
import type { StepAttempt } from '../../../manager/effect/step.ts';
import { explainDraft } from '../../../manager/write/draft.ts';
import type { DriftEvent } from '../../drift/index.ts';
import { boundedJson } from '../../drift/step/bounded.ts';
import type { Work, WorkCall } from '../../run/work.ts';
import type { AgentMind } from '../state/agent-state.ts';
import { errorOf, errorText, secretLeftOut } from '../state/error-text.ts';
import { checkSections, collectSections } from '../state/sections.ts';
import type { LiveAgent } from './live-agent.ts';
import { checkCanWork, type LoopAgent, type Turn, type TurnStepOptions, toolOf } from './loop-agent.ts';
import { type GuardOptions, type Operation, type OperationOutcome, Operations } from './operation.ts';
import type { OperationLog } from './operation-log.ts';
import type { Progress } from './progress.ts';
import { copyOf, guarded, type Inside, isInsideOperation, runInside } from './turn-draft.ts';
import { TurnReport } from './turn-report.ts';

/** What a turn works on and with. */
export type TurnParts = {
  readonly live: LiveAgent;
  /** The message or the task: what an earlier attempt at it has done is not done again. */
  readonly work: Work;
  /** 1, or more if an attempt failed or the process died during it. */
  readonly attempt: number;
  readonly codec: StateCodec;
  readonly log: OperationLog;
  readonly progress: Progress;
  readonly isStopping: () => boolean;
};

type Perform<Result> = (attempt: StepAttempt) => Promise<Result> | Result;

const STEP: OptionChecks<TurnStepOptions> = { input: anything, signal };

/** The turn that an agent sees: a draft of its mind, and steps that are done once. */
export class TurnRun implements Turn {
  readonly report: TurnReport;
  readonly operations: Operations;
  readonly attempt: number;
  readonly #parts: TurnParts;
  readonly #agent: LoopAgent;
  readonly #before: AgentMind;
  readonly #state: Draft<AgentMind>;
  readonly #finalize: () => readonly [AgentMind, Patches, Patches];
  readonly #abort = new AbortController();
  readonly #underWay = new UnderWay();
  /** Ends the waiting for what is under way: the turn's time is up, or the loop stops. */
  #giveUp: () => void = () => undefined;
  readonly #givenUp = new Promise<void>((resolve) => {
    this.#giveUp = resolve;
  });
  /** Whether the agent has done its part: nothing else begins. */
  #isEnding = false;
  #isOver = false;

  constructor(parts: TurnParts) {
    const { live, codec, attempt } = parts;
    this.#parts = parts;
    this.attempt = attempt;
    this.#agent = live.open();
    this.#before = live.mind;
    const [draft, finalize] = create(live.mind, { enablePatches: true });
    this.#finalize = finalize as unknown as () => readonly [AgentMind, Patches, Patches];
    this.#state = guarded(draft, { copy: (value) => copyOf(codec, value), isOver: () => this.#isClosed });
    this.report = new TurnReport({
      ...parts,
      look: () => this.#read(() => current(draft) as AgentMind),
      isOver: () => this.signal.aborted || this.#isEnding,
      onDrift: () => this.#abort.abort(new DOMException('The turn was ended because the agent drifts.', 'AbortError')),
    });
    this.operations = new Operations({
      ...parts,
      findTool: (name) => toolOf(this.#agent, name),
      call: this.call.bind(this),
      once: (call, run) => this.#once(call, 'operation', run),
      throwIfDrifting: this.throwIfDrifting.bind(this),
    });
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

  get idempotencyKey(): string {
    return this.#parts.work.key;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  throwIfDrifting(): void {
    if (this.report.isDrifting) this.signal.throwIfAborted();
  }

  /** Ends it from outside: what it does is not waited for any more. */
  abort(reason: DOMException): void {
    this.#abort.abort(reason);
    this.#giveUp();
  }

  async step<Result>(name: string, run: Perform<Result>, options: TurnStepOptions = {}): Promise<Result> {
    checkOptions(options, STEP, 'turn.step()');
    const call = { name, ...options };
    const perform = async (): Promise<Result> => {
      this.signal.throwIfAborted();
      checkValue(run, callback, 'The function of turn.step()');
      return this.#performAndFind(call, run);
    };
    // Without an input nobody knows whether it is the same step again. A prompt that grows is another one each time.
    return this.#during(name, () =>
      options.input === undefined
        ? perform()
        : this.report.show(call, this.report.digestOf({ input: options.input }), perform),
    );
  }

  async call(tool: string, input: unknown): Promise<unknown> {
    return this.#during(tool, async () => {
      const found = toolOf(this.#agent, tool);
      if (found === undefined)
        throw new InvalidInputError(
          `The agent has no tool "${tool}" (it has: ${Object.keys(this.#agent.tools ?? {}).join(', ') || 'none'}).`,
        );
      this.signal.throwIfAborted();
      const call = { name: tool, input, label: labelOf({ name: tool, input }) };
      const perform = (attempt: StepAttempt): unknown => {
        this.#checkSecrets(call);
        return found.run(input, attempt);
      };
      return this.report.show(call, input, () => this.#performAndFind(call, perform));
    });
  }

  async guard<Result>(
    name: string,
    run: (operation: Operation) => Promise<Result> | Result,
    options: GuardOptions = {},
  ): Promise<OperationOutcome<Result>> {
    this.operations.check(name, run, options);
    return this.#during(name, () => this.operations.guard(name, run, options));
  }

  observe(event: DriftEvent): void {
    this.report.observe(event);
  }

  async #performAndFind<Result>(call: WorkCall, run: Perform<Result>): Promise<Result> {
    this.signal.throwIfAborted();
    const signal = call.signal === undefined ? this.signal : AbortSignal.any([this.signal, call.signal]);
    try {
      const outcome = await this.#once({ ...call, signal }, 'step', run);
      this.report.find(call, outcome);
      return outcome;
    } catch (error) {
      this.report.find(call, errorText(error));
      throw error;
    }
  }

  /** Also for a turn that was aborted: what an operation did is undone all the same. */
  async #once<Result>(call: WorkCall, place: Inside, run: Perform<Result>): Promise<Result> {
    const { work, live } = this.#parts;
    let isReplayed = true;
    const result = await work.call(call, (attempt) => {
      isReplayed = false;
      return runInside(place, () => run(attempt));
    });
    if (isReplayed) for (const mark of marksIn(result)) live.leftOut.add(mark);
    return result;
  }

  /** A tool must not act with what stands for a secret: a result of an earlier process, or a state, may hold it. */
  #checkSecrets({ name, input }: WorkCall): void {
    const place = findLeftOut(input, this.#parts.live.leftOut);
    if (place === undefined) return;
    throw errorOf(
      secretLeftOut(
        `Tool "${name}" was not called, because the secret at ${place} of its input is not stored. Read it inside the tool, for example from the environment.`,
      ),
    );
  }

  /** An operation that is under way when the turn ends goes on to its own end. */
  get #isClosed(): boolean {
    return this.#isOver || (this.#isEnding && !isInsideOperation());
  }

  /** Does what the turn has to wait for, unless it has ended. */
  async #during<Result>(name: string, run: () => Promise<Result>): Promise<Result> {
    if (this.#isClosed)
      throw new ClosedError(
        `The turn has ended, so "${name}" was not done. Await all that a turn does before it ends.`,
      );
    return this.#underWay.add(run());
  }

  /** Reads the state, also while the turn ends: the agent may have put guarded parts of it into others. */
  #read<Result>(read: () => Result): Result {
    const isEnding = this.#isEnding;
    this.#isEnding = false;
    try {
      return read();
    } catch (error) {
      throw explainDraft(error, 'the turn');
    } finally {
      this.#isEnding = isEnding;
    }
  }

  /** Lets nothing else begin, and waits for what is under way, so that another attempt finds it recorded. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await Promise.race([this.#underWay.settled(), this.#givenUp]);
  }

  /** Lets nobody touch the state any more. */
  close(): void {
    this.#isOver = true;
  }

  /** Ends the draft; returns the mind it came to, and what changed, in a form that can be applied again. */
  finish(): { readonly mind: AgentMind; readonly patches: Patches } {
    this.report.showFailure();
    const [mind, patches] = this.#read(this.#finalize);
    freezeState(mind);
    checkSections(mind, this.#before);
    const collected = collectSections(this.#agent.sections, mind, this.#parts.live.onProblem);
    const replaced = (['task', 'context', 'memory'] as const).filter((name) => collected[name] !== mind[name]);
    const more = replaced.map((name) => ({ op: 'replace' as const, path: [name], value: collected[name] }));
    if (this.#before.task?.status !== 'active') checkCanWork(this.#agent, collected.task);
    return { mind: collected, patches: [...patches, ...more] };
  }
}

/** How much of a call a note to the agent quotes. */
const MAX_LABEL_CHARS = 100;

function labelOf({ name, input }: WorkCall): string {
  const label = `${name}(${boundedJson(input) ?? ''})`;
  return label.length <= MAX_LABEL_CHARS ? label : `${label.slice(0, MAX_LABEL_CHARS - 2)}…)`;
}
