import { create, current, type Draft, type Patches } from 'mutative';
import { InvalidInputError } from '../../core/errors.ts';
import type { StepAttempt, StepOptions } from '../../manager/effect-log.ts';
import { freezeState } from '../../manager/freeze.ts';
import type { Session } from '../../manager/session.ts';
import type { DriftEvent } from '../drift/index.ts';
import { type AgentMind, mindOf } from './agent-state.ts';
import { errorText } from './error-text.ts';
import type { LoopAgent, Turn } from './loop-agent.ts';
import {
  type GuardOptions,
  type Operation,
  type OperationLog,
  type OperationOutcome,
  runGuarded,
} from './operation.ts';
import { putBack } from './put-back.ts';
import { collectSections } from './sections.ts';

/** What a turn works on and with. */
export type TurnParts = {
  /** `turn 17`: the name of the turn in the effect log, and of all its steps with it. */
  readonly name: string;
  readonly session: Session;
  readonly agent: LoopAgent;
  readonly mind: AgentMind;
  readonly attempt: StepAttempt;
  /** Results of its steps so far; grows. A checkpoint taken during the turn holds them. */
  readonly results: Map<string, unknown>;
  readonly operations: OperationLog;
  /** Shows an event to the drift watch; answers whether the agent drifts. */
  readonly observe: (event: DriftEvent) => boolean;
  readonly isStopping: () => boolean;
};

/** The turn that an agent sees: a draft of its mind, and steps that are done once. */
export class TurnRun implements Turn {
  readonly state: Draft<AgentMind>;
  readonly #parts: TurnParts;
  readonly #finalize: () => [AgentMind, Patches, Patches];
  readonly #abort = new AbortController();
  readonly #uses = new Map<string, number>();
  #isDrifting = false;

  constructor(parts: TurnParts) {
    this.#parts = parts;
    [this.state, this.#finalize] = create(parts.mind, { enablePatches: true, enableAutoFreeze: true });
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

  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: StepOptions,
  ): Promise<Result> {
    this.signal.throwIfAborted();
    return this.#stepOnce(this.#unique(name), run, { signal: this.signal, ...options });
  }

  /** Also for a turn that was aborted: what an operation did is undone all the same. */
  async #stepOnce<Result>(
    key: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: StepOptions,
  ): Promise<Result> {
    const { results, session, name } = this.#parts;
    if (results.has(key)) return results.get(key) as Result;
    // Noted before it is recorded: a checkpoint taken in between has it one way or the other.
    const runAndNote = async (attempt: StepAttempt) => this.#note(key, await run(attempt));
    return this.#note(key, await session.step(`${name}: ${key}`, runAndNote, options));
  }

  #note<Result>(key: string, result: Result): Result {
    freezeState(result);
    this.#parts.results.set(key, result);
    return result;
  }

  /** Names are used again in the same order when the turn is taken up again. */
  #unique(name: string): string {
    const uses = (this.#uses.get(name) ?? 0) + 1;
    this.#uses.set(name, uses);
    return uses === 1 ? name : `${name} ~${uses}`;
  }

  async call(tool: string, input: unknown): Promise<unknown> {
    const found = this.#tools[tool];
    if (found === undefined)
      throw new InvalidInputError(
        `The agent has no tool "${tool}" (it has: ${Object.keys(this.#tools).join(', ') || 'none'}).`,
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

  get #tools() {
    return this.#parts.agent.tools ?? {};
  }

  async guard<Result>(
    name: string,
    run: (operation: Operation) => Promise<Result> | Result,
    options: GuardOptions = {},
  ): Promise<OperationOutcome<Result>> {
    const parts = {
      name,
      key: this.#unique(`guard ${name}`),
      tools: this.#tools,
      log: this.#parts.operations,
      isStopping: this.#parts.isStopping,
      step: this.#stepOnce.bind(this),
      call: this.call.bind(this),
      remember: () => this.#remember(),
    };
    return runGuarded(parts, run, options);
  }

  #remember(): () => void {
    const before = current(this.state);
    return () => putBack(this.state, before);
  }

  observe(event: DriftEvent): void {
    if (!this.#parts.observe(event) || this.#isDrifting) return;
    this.#isDrifting = true;
    this.abort(new DOMException('The turn was ended because the agent drifts.', 'AbortError'));
  }

  /** Ends the draft; answers what changed, in a form that can be applied again. */
  finish(): Patches {
    const { sections } = this.#parts.agent;
    const [mind, patches] = this.#finalize();
    const collected = collectSections(sections, mindOf(mind));
    const names = ['task', 'context', 'memory'] as const;
    const own = names.filter((name) => collected[name] !== mind[name]);
    return [...patches, ...own.map((name) => ({ op: 'replace' as const, path: [name], value: collected[name] }))];
  }
}
