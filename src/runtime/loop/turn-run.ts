import type { Draft, Patches } from 'mutative';
import { InvalidInputError } from '../../core/errors.ts';
import type { StateCodec } from '../../core/state-codec.ts';
import type { StepAttempt, StepOptions } from '../../manager/effect-log.ts';
import { freezeState } from '../../manager/freeze.ts';
import type { Session } from '../../manager/session.ts';
import type { DriftEvent } from '../drift/index.ts';
import type { AgentMind } from './agent-state.ts';
import { errorText } from './error-text.ts';
import type { Findings } from './findings.ts';
import type { LoopAgent, LoopTool, Turn } from './loop-agent.ts';
import { OpenCalls } from './open-calls.ts';
import {
  type GuardOptions,
  type Operation,
  type OperationLog,
  type OperationOutcome,
  parseGuardOptions,
  runGuarded,
} from './operation.ts';
import { checkSections, collectSections, type OnSectionProblem } from './sections.ts';
import { changesBetween } from './state-changes.ts';
import { formatStepRecord, parseStepRecord } from './step-record.ts';
import { TurnDraft } from './turn-draft.ts';

/** What a turn works on and with. */
export type TurnParts = {
  /** `turn 17`: the name of the turn in the effect log, and of all its steps with it. */
  readonly name: string;
  readonly session: Session;
  readonly codec: StateCodec;
  readonly agent: LoopAgent;
  readonly mind: AgentMind;
  readonly attempt: StepAttempt;
  /** Results of its steps so far; grows. A checkpoint taken during the turn holds them. */
  readonly results: Map<string, unknown>;
  /** What it found out so far; grows. */
  readonly findings: Findings | undefined;
  readonly operations: OperationLog;
  /** Shows an event to the drift watch; answers whether the agent drifts. */
  readonly observe: (event: DriftEvent) => boolean;
  readonly isStopping: () => boolean;
  /** Hears of sections that the agent does not answer. */
  readonly onProblem?: OnSectionProblem;
};

/** Names that a step gets only with a number, because the loop gives them to other steps of a turn. */
const TAKEN_NAMES = /^choose$| ~\d+$|: undo \d+ /;

/** The turn that an agent sees: a draft of its mind, and steps that are done once. */
export class TurnRun implements Turn {
  readonly #parts: TurnParts;
  readonly #draft: TurnDraft;
  readonly #abort = new AbortController();
  readonly #uses = new Map<string, number>();
  #isDrifting = false;

  constructor(parts: TurnParts) {
    this.#parts = parts;
    this.#draft = new TurnDraft(parts.mind, parts.codec);
  }

  get state(): Draft<AgentMind> {
    return this.#draft.state;
  }

  get attempt(): number {
    return this.#parts.attempt.attempt;
  }

  get idempotencyKey(): string {
    return this.#parts.attempt.idempotencyKey;
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
    options?: StepOptions,
  ): Promise<Result> {
    this.signal.throwIfAborted();
    const { findings } = this.#parts;
    const done = { name, input: options?.input };
    try {
      const outcome = await this.#stepOnce(this.#unique(name), run, { signal: this.signal, ...options });
      findings?.add({ ...done, outcome });
      return outcome;
    } catch (error) {
      findings?.add({ ...done, outcome: errorText(error) });
      throw error;
    }
  }

  /** Also for a turn that was aborted: what an operation did is undone all the same. */
  async #stepOnce<Result>(
    key: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: StepOptions,
  ): Promise<Result> {
    const { results, session, name } = this.#parts;
    if (results.has(key)) return this.#redo(results.get(key));
    let isRunHere = false;
    const runAndNote = async (attempt: StepAttempt) => {
      isRunHere = true;
      // Noted before it is recorded: a checkpoint taken in between has it one way or the other.
      return this.#note(key, formatStepRecord(await this.#draft.run(() => run(attempt))));
    };
    try {
      const recorded = this.#note(key, await session.step(`${name}: ${key}`, runAndNote, options));
      return isRunHere ? parseStepRecord<Result>(recorded).result : this.#redo(recorded);
    } catch (error) {
      results.delete(key);
      throw error;
    }
  }

  #note(key: string, recorded: unknown): unknown {
    freezeState(recorded);
    this.#parts.results.set(key, recorded);
    return recorded;
  }

  /** A step that ended before is not run again; what it changed is changed again. */
  #redo<Result>(recorded: unknown): Result {
    const { result, changes } = parseStepRecord<Result>(recorded);
    this.#draft.redo(changes);
    return result;
  }

  /** Names are used again in the same order when the turn is taken up again. */
  #unique(name: string): string {
    const uses = (this.#uses.get(name) ?? 0) + 1;
    this.#uses.set(name, uses);
    return uses === 1 && !TAKEN_NAMES.test(name) ? name : `${name} ~${uses}`;
  }

  async call(tool: string, input: unknown): Promise<unknown> {
    const found = this.#findTool(tool);
    if (found === undefined)
      throw new InvalidInputError(
        `The agent has no tool "${tool}" (it has: ${Object.keys(this.#parts.agent.tools ?? {}).join(', ') || 'none'}).`,
      );
    this.observe({ kind: 'call', name: tool, input });
    try {
      const output = await this.step(tool, (attempt) => found.run(input, attempt), { input });
      this.observe({ kind: 'result', name: tool, output });
      return output;
    } catch (error) {
      this.observe({ kind: 'result', name: tool, text: errorText(error).message, isError: true });
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
    const checked = parseGuardOptions(options);
    const outer = this.#draft.operation;
    const calls = new OpenCalls(this.call.bind(this));
    const parts = {
      name,
      key: this.#unique(`guard ${name}`),
      calls,
      outer,
      findTool: this.#findTool.bind(this),
      log: this.#parts.operations,
      isStopping: this.#parts.isStopping,
      step: this.#stepOnce.bind(this),
      remember: () => this.#draft.remember(),
    };
    const guarded = this.#draft.run(() => runGuarded(parts, run, checked), calls);
    return (await (outer?.track(guarded) ?? guarded)).result;
  }

  /** What is no event is not shown. */
  observe(event: DriftEvent): void {
    if (typeof event !== 'object' || event === null) return;
    if (!this.#parts.observe(event) || this.#isDrifting) return;
    this.#isDrifting = true;
    this.abort(new DOMException('The turn was ended because the agent drifts.', 'AbortError'));
  }

  /** Ends the draft; answers the mind it came to, and what changed, in a form that can be applied again. */
  finish(): { readonly mind: AgentMind; readonly patches: Patches } {
    const { agent, mind: before, onProblem } = this.#parts;
    const mind = this.#draft.finish();
    freezeState(mind);
    checkSections(mind, before);
    const collected = collectSections(agent.sections, mind, onProblem);
    return { mind: collected, patches: changesBetween(this.#draft.values, before, collected) };
  }
}
