import type { FunctionTool, Model, ModelProvider, ModelRequest, ModelResponse, Tool } from '@openai/agents-core';
import { hasErrorCode } from '../../core/errors.ts';
import { importPeer } from '../../core/import-peer.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { deleteSession } from '../../manager/retention/forgetting.ts';
import type { SessionOpener } from '../../manager/write/session-opener.ts';
import type { SessionWriter } from '../../manager/write/session-writer.ts';

type StreamEvent = ReturnType<Model['getStreamedResponse']> extends AsyncIterable<infer Event> ? Event : never;
type RecordedCall = { readonly name: string; readonly input: unknown };

/**
 * Records the model calls and tool calls of runs, in a session of their own. A call that ended is not made again by a run that
 * begins anew after a crash or an error: it is found by what was asked. When a run's outcome is in the history, its calls are settled.
 */
export class RunRecorder {
  readonly #engine: Engine;
  readonly #opener: SessionOpener;
  readonly #sessionId: SessionId;
  #opening: Promise<SessionWriter> | undefined;
  #hasSteps = false;
  /** Nothing is left to settle: nothing is recorded here, or it is settled. */
  #isSettled = true;

  constructor(engine: Engine, opener: SessionOpener, sessionId: SessionId) {
    this.#engine = engine;
    this.#opener = opener;
    this.#sessionId = sessionId;
  }

  /** A run begins: what an earlier one left unsettled can be found. */
  async begin(): Promise<void> {
    const before = this.#opening;
    if (before === undefined || !this.#hasSteps) return;
    this.#opening = undefined;
    this.#hasSteps = false;
    await (await before).close();
  }

  /** The outcome of a run is saved: the next one makes its calls itself. */
  async settle(): Promise<void> {
    if (this.#isSettled) return;
    const session = await this.#open();
    const { runs = 0 } = (session.state ?? {}) as { readonly runs?: number };
    try {
      await session.save({ runs: runs + 1 }, { type: 'auto', trigger: 'run_settled' });
      this.#isSettled = true;
    } catch (error) {
      // Another process runs the session too. The outcome is saved; what stays unsettled is found by nobody who asks for something else.
      if (!hasErrorCode(error, 'CONFLICT')) throw error;
      this.#opening = undefined;
    }
  }

  /** Deletes what was recorded. */
  async delete(): Promise<void> {
    await this.begin();
    await deleteSession(this.#engine, this.#sessionId);
  }

  /** A model whose answers are recorded, streamed or not. */
  model(model: Model): Model {
    this.#isSettled = false; // a process that died may have left something
    const recorded: Model = {
      getResponse: async (request) => {
        const stored = await this.#step(callOf('model', request), async () =>
          toPlain(await model.getResponse(request)),
        );
        return withUsage(stored as ModelResponse);
      },
      getStreamedResponse: (request) => this.#stream(model, request),
    };
    if (model.supportsPromptModelSelection !== undefined)
      Object.assign(recorded, { supportsPromptModelSelection: model.supportsPromptModelSelection });
    if (model.getRetryAdvice !== undefined) recorded.getRetryAdvice = (args) => model.getRetryAdvice?.(args);
    return recorded;
  }

  /** A provider whose models are recorded. */
  provider(provider: ModelProvider): ModelProvider {
    return { getModel: async (name) => this.model(await provider.getModel(name)) };
  }

  /** A tool whose results are recorded; one that is no function of this program is left as it is. */
  tool<Given extends Tool>(tool: Given): Given {
    if (tool.type !== 'function') return tool;
    this.#isSettled = false;
    const given: FunctionTool<unknown> = tool;
    const invoke: FunctionTool<unknown>['invoke'] = (context, input, details) => {
      const call = { name: `tool:${given.name}`, input: [details?.toolCall?.callId ?? null, input] };
      return this.#step(call, ({ idempotencyKey }) =>
        given.invoke(context, input, { ...details, idempotencyKey } as typeof details),
      );
    };
    return { ...tool, invoke };
  }

  /** What the model says is passed on at once; that it has ended, when it is recorded. */
  async *#stream(model: Model, request: ModelRequest): AsyncGenerator<StreamEvent> {
    const live = new Queue<StreamEvent>();
    let isLive = false;
    const recorded = this.#step(callOf('model-stream', request), async () => {
      isLive = true;
      const events: StreamEvent[] = [];
      for await (const event of model.getStreamedResponse(request)) {
        events.push(event);
        if (event.type !== 'response_done') live.push(event);
      }
      return toPlain(events);
    }).finally(() => live.end());
    recorded.catch(() => undefined); // it is thrown below
    yield* live;
    const events = (await recorded) as StreamEvent[];
    yield* isLive ? events.filter(({ type }) => type === 'response_done') : events;
  }

  async #step<Result>(call: RecordedCall, run: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const session = await this.#open();
    this.#hasSteps = true;
    this.#isSettled = false;
    return session.step(call.name, run, { input: call.input });
  }

  #open(): Promise<SessionWriter> {
    this.#opening ??= this.#opener.open(this.#sessionId, {});
    this.#opening.catch(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }
}

/** What is asked of a model, without what differs from one attempt to the next. */
function callOf(name: string, request: ModelRequest): RecordedCall {
  return { name, input: toPlain({ ...request, signal: undefined, tracing: undefined }) };
}

/** A value as JSON has it: responses hold instances of the SDK's classes. */
function toPlain<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value)) as Value;
}

/** The SDK itself, loaded when something of it is first made. */
export function importAgents(): Promise<typeof import('@openai/agents-core')> {
  return importPeer('@openai/agents-core', () => import('@openai/agents-core'), 'savestate/openai-agents');
}

/** Usage is a class that adds up. */
async function withUsage(response: ModelResponse): Promise<ModelResponse> {
  const { Usage } = await importAgents();
  return { ...response, usage: new Usage(response.usage as ConstructorParameters<typeof Usage>[0]) };
}

/** What one side adds and the other takes out, until it is ended. */
class Queue<Value> implements AsyncIterable<Value> {
  readonly #values: Value[] = [];
  #isEnded = false;
  #wake: () => void = () => undefined;

  push(value: Value): void {
    this.#values.push(value);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Value> {
    for (;;) {
      while (this.#values.length > 0) yield this.#values.shift() as Value;
      if (this.#isEnded) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
