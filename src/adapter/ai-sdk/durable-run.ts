import { isDeepStrictEqual } from 'node:util';
import type { LanguageModel, ModelMessage, ToolLoopAgentSettings, ToolSet } from 'ai';
import { InvalidInputError } from '../../core/errors.ts';
import { checkValue, having, isRecord, record } from '../../core/options.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { toPlain } from '../transcript/plain.ts';
import { ModelRecorder } from './model-recorder.ts';

/** The state of a session that durable runs are saved in. */
export type DurableState = {
  readonly adapter: 'ai-sdk';
  readonly version: 1;
  /** `running` from the first step of a run until its end. */
  readonly status: 'running' | 'done';
  /** The conversation as of the last step, to go on from: `[...session.state.messages, { role: 'user', content }]`. */
  readonly messages: readonly ModelMessage[];
};

type Model = Exclude<LanguageModel, string>;
type Execute = (input: unknown, options: ToolOptions) => unknown;
type ToolOptions = { readonly toolCallId: string; readonly abortSignal?: AbortSignal | undefined };
type ToolCall = { readonly name: string; readonly input: unknown; readonly options: ToolOptions };
type ToolOutcome = { readonly output: unknown } | { readonly error: unknown };
type Response = { readonly messages: readonly ModelMessage[] };

/** What is told at the end of a run. */
type RunEnd = { readonly response?: Response; readonly steps?: readonly { readonly response: Response }[] };

/**
 * The runs of some settings in a session: model calls and tool calls are its steps, and each step of the SDK's loop is a checkpoint.
 * These keep the recordings of their run until it ends, so that a run that is begun again finds all of them.
 */
class DurableRun {
  readonly #session: Session;
  readonly #recorder: ModelRecorder;
  readonly #wrapped = new WeakSet<object>();
  /** What could not be stored where the SDK hears no errors; thrown as soon as it does. */
  #failure: { readonly error: unknown } | undefined;
  /** The conversation before the answer that is under way. */
  #messages: readonly ModelMessage[] = [];
  /** Whether the model answered in the step that is under way: streamed runs also end as usual after an error. */
  #isAnswered = false;
  /** How many of its messages are the same as in the state, for certain. */
  #known = 0;

  constructor(session: Session) {
    this.#session = session;
    const step: Session['step'] = async (...call) => {
      const answer = await session.step(...call);
      this.#isAnswered = true;
      return answer;
    };
    this.#recorder = new ModelRecorder({ step }, 'model');
  }

  /** A model whose answers are recorded. */
  model(given: LanguageModel): LanguageModel {
    if (typeof given === 'string')
      throw new InvalidInputError(
        `durable() needs a model, and found the name "${given}". Give the model itself, such as gateway('${given}').`,
      );
    checkValue(given, having('doGenerate', 'doStream'), 'The model of durable()');
    if (this.#wrapped.has(given)) return given;
    const recorded = {
      specificationVersion: given.specificationVersion,
      provider: given.provider,
      modelId: given.modelId,
      get supportedUrls() {
        return given.supportedUrls;
      },
      doGenerate: (params: object) =>
        this.#recorder.generate(params, () => given.doGenerate(params as never) as PromiseLike<object>),
      doStream: (params: object) => this.#recorder.stream(params, () => given.doStream(params as never) as never),
    };
    this.#wrapped.add(recorded);
    return recorded as unknown as Model;
  }

  /** Tools whose results are recorded; those that this program does not execute are left as they are. */
  tools(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
    return Object.fromEntries(Object.entries(given).map(([name, tool]) => [name, this.#tool(name, tool)]));
  }

  #tool(name: string, tool: unknown): unknown {
    if (!isRecord(tool) || typeof tool.execute !== 'function' || this.#wrapped.has(tool)) return tool;
    const run = tool.execute.bind(tool) as Execute;
    const execute: Execute = (input, options) => this.#execute({ name, input, options }, run);
    const recorded = { ...tool, execute };
    this.#wrapped.add(recorded);
    return recorded;
  }

  /** What a tool throws is an outcome, too: the model is told of it, and must be told the same again. */
  async #execute({ name, input, options }: ToolCall, execute: Execute): Promise<unknown> {
    const isAborted = (): boolean => options.abortSignal?.aborted === true;
    let thrown: { readonly error: unknown } | undefined;
    const run = async ({ idempotencyKey }: StepAttempt): Promise<ToolOutcome> => {
      try {
        return { output: toPlain(await lastOf(execute(input, { ...options, idempotencyKey } as ToolOptions))) };
      } catch (error) {
        if (isAborted()) throw error;
        thrown = { error };
        return { error: error instanceof Error ? new Error(error.message) : toPlain(error) };
      }
    };
    const call = { input: [options.toolCallId, toPlain(input)] };
    const outcome = await this.#session.step(`tool:${name}`, run, call).catch((error: unknown) => {
      if (!isAborted()) this.#failure ??= { error };
      throw error;
    });
    if ('error' in outcome) throw thrown === undefined ? outcome.error : thrown.error;
    return outcome.output;
  }

  /** A step of the loop begins: the one before is saved, and what could not be stored meanwhile is thrown. */
  async prepare({ stepNumber, messages }: { stepNumber: number; messages: readonly ModelMessage[] }): Promise<void> {
    this.#isAnswered = false;
    this.#throwFailure();
    this.#messages = [...messages];
    if (stepNumber === 0) this.#known = 0;
    const trigger = stepNumber === 0 ? 'run_started' : 'step_completed';
    await this.#save('running', this.#messages, { trigger, effects: 'of_parent' });
  }

  /** The run ended. The SDK hears no errors here: the next run throws what this one could not store. */
  async finish({ response, steps }: RunEnd): Promise<void> {
    if (this.#failure !== undefined || !this.#isAnswered) return;
    const last = response ?? steps?.at(-1)?.response;
    const messages = followedBy(this.#messages, last?.messages ?? []);
    await this.#save('done', messages, { trigger: 'run_completed' }).catch((error: unknown) => {
      this.#failure = { error };
    });
  }

  async #save(status: DurableState['status'], messages: readonly ModelMessage[], options: SaveOptions): Promise<void> {
    const before = readState(this.#session);
    const keep = countSame(before?.messages ?? [], messages, this.#known);
    this.#known = keep;
    // A run that is begun again comes by what it saved before.
    if (status === 'running' && before?.status === 'running' && keep === messages.length) return;
    const add = toPlain(messages.slice(keep));
    const described = { ...options, type: 'auto' };
    if (before === undefined)
      await this.#session.save({ adapter: 'ai-sdk', version: 1, status, messages: add }, described);
    else
      await this.#session.update((draft) => {
        const state = draft as { status: string; messages: unknown[] };
        state.status = status;
        state.messages.splice(keep, state.messages.length, ...add);
      }, described);
    this.#known = messages.length;
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }
}

function readState({ id, state }: Session): DurableState | undefined {
  if (state === undefined) return undefined;
  const found = (isRecord(state) ? state : {}) as Partial<DurableState>;
  if (found.adapter === 'ai-sdk' && found.version === 1 && Array.isArray(found.messages)) return found as DurableState;
  throw new InvalidInputError(
    `Session "${id}" holds ${found.adapter === 'ai-sdk' ? `a run of version ${String(found.version)}, and this program knows version 1` : 'a state that is no run of the AI SDK'}; nothing was changed. Use a session of its own for durable().`,
    { details: { sessionId: id } },
  );
}

/** How many messages two lists begin with in common; the first ones are known to be. */
function countSame(left: readonly unknown[], right: readonly unknown[], known: number): number {
  let same = Math.min(known, left.length, right.length);
  while (same < Math.min(left.length, right.length) && isDeepStrictEqual(left[same], toPlain(right[same]))) same++;
  return same;
}

/** A response follows what was said before. In version 6 it repeats the answers of the run so far, in 7 it does not. */
function followedBy(before: readonly ModelMessage[], response: readonly ModelMessage[]): ModelMessage[] {
  const first = toPlain(response[0]);
  for (let at = Math.max(0, before.length - response.length + 1); at < before.length; at++)
    if (isDeepStrictEqual(toPlain(before[at]), first)) return [...before.slice(0, at), ...response];
  return [...before, ...response];
}

/** What a tool returns; of one that yields, what it yields last. */
async function lastOf(returned: unknown): Promise<unknown> {
  if (typeof returned !== 'object' || returned === null || !(Symbol.asyncIterator in returned)) return returned;
  let last: unknown;
  for await (const value of returned as AsyncIterable<unknown>) last = value;
  return last;
}

/** Settings of an agent, of `generateText` or of `streamText`, in either version. */
type DurableSettings = { readonly model: unknown; readonly tools?: object | undefined };

/** What is passed on: all but callbacks, whose types hang on what the run puts out. */
type PassedOn<Settings> = Omit<Settings, `on${string}` | `experimental_on${string}` | 'prepareCall' | 'output'>;

type Prepared = { readonly model?: LanguageModel; readonly tools?: Record<string, unknown> };
type Callbacks = {
  readonly prepareStep?: (options: Parameters<DurableRun['prepare']>[0]) => Prepared | PromiseLike<Prepared>;
  readonly prepareCall?: (options: object) => Prepared | PromiseLike<Prepared>;
  readonly onFinish?: (end: RunEnd) => unknown;
  readonly onEnd?: (end: RunEnd) => unknown;
};

/**
 * The same settings, whose runs are recorded in a session: begun again with the same input after a crash, in a session that was opened
 * again, a run gets what was recorded and goes on from there. A run that cannot be stored stops.
 */
export function durable<Tools extends ToolSet = Record<never, never>>(
  settings: ToolLoopAgentSettings<never, Tools>,
  session: Session,
): NoInfer<PassedOn<ToolLoopAgentSettings<never, Tools>>>;
export function durable<Settings extends DurableSettings>(settings: Settings, session: Session): Settings;
export function durable<Settings extends DurableSettings>(settings: Settings, session: Session): Settings {
  checkValue(settings, record, 'The settings of durable()');
  checkValue(session, having('step', 'save', 'update'), 'The session of durable()');
  const run = new DurableRun(session);
  const { prepareStep, prepareCall, onEnd, onFinish } = settings as Callbacks;
  const wrapParts = <Parts extends Prepared>(parts: Parts): Parts => ({
    ...parts,
    ...(parts?.model !== undefined && { model: run.model(parts.model) }),
    ...(parts?.tools !== undefined && { tools: run.tools(parts.tools) }),
  });
  const hooks: Callbacks = {
    prepareStep: async (options) => {
      await run.prepare(options);
      return wrapParts((await prepareStep?.(options)) ?? {});
    },
    // Version 7 calls onFinish only where there is no onEnd.
    [onEnd === undefined ? 'onFinish' : 'onEnd']: async (end: RunEnd) => {
      await run.finish(end);
      await (onEnd ?? onFinish)?.(end);
    },
    ...(prepareCall !== undefined && { prepareCall: async (options) => wrapParts(await prepareCall(options)) }),
  };
  return { ...wrapParts({ ...settings, model: settings.model ?? null } as Settings & Prepared), ...hooks };
}
