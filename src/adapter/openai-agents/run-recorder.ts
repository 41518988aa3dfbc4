import type { FunctionTool, Model, ModelRequest, ModelResponse, Tool } from '@openai/agents-core';
import { importPeer } from '../../core/import-peer.ts';
import type { CallLog, LoggedCall } from '../transcript/call-log.ts';
import { toPlain } from '../transcript/plain.ts';

type StreamEvent = ReturnType<Model['getStreamedResponse']> extends AsyncIterable<infer Event> ? Event : never;

/** A model whose answers are recorded in a log, streamed or not: they are found by what was asked. */
export function recordModel(log: CallLog, model: Model): Model {
  log.expectCalls();
  const recorded: Model = {
    getResponse: async (request) => {
      const ask = async () => toPlain(await model.getResponse(request));
      return withUsage(await log.step(callOf('model', request), ask));
    },
    getStreamedResponse: (request) => recordStream(log, model, request),
  };
  if (model.supportsPromptModelSelection !== undefined)
    Object.assign(recorded, { supportsPromptModelSelection: model.supportsPromptModelSelection });
  if (model.getRetryAdvice !== undefined) recorded.getRetryAdvice = (args) => model.getRetryAdvice?.(args);
  return recorded;
}

/** A tool whose results are recorded; one that is no function of this program is left as it is. */
export function recordTool<Given extends Tool>(log: CallLog, tool: Given): Given {
  if (tool.type !== 'function') return tool;
  log.expectCalls();
  const given: FunctionTool<unknown> = tool;
  const invoke: FunctionTool<unknown>['invoke'] = (context, input, details) => {
    const call = { name: `tool:${given.name}`, input: [details?.toolCall?.callId ?? null, input] };
    return log.step(call, ({ idempotencyKey }) =>
      given.invoke(context, input, { ...details, idempotencyKey } as typeof details),
    );
  };
  return { ...tool, invoke };
}

/** What the model says is passed on at once; that it has ended, when it is recorded. */
async function* recordStream(log: CallLog, model: Model, request: ModelRequest): AsyncGenerator<StreamEvent> {
  const { readable, writable } = new TransformStream<StreamEvent, StreamEvent>(
    {},
    { highWaterMark: Number.POSITIVE_INFINITY },
  );
  const live = writable.getWriter();
  let isLive = false;
  const ask = async (): Promise<StreamEvent[]> => {
    isLive = true;
    const events: StreamEvent[] = [];
    for await (const event of model.getStreamedResponse(request)) {
      events.push(event);
      if (event.type !== 'response_done') void live.write(event);
    }
    return toPlain(events);
  };
  const recorded = log.step(callOf('model-stream', request), ask).finally(() => live.close());
  recorded.catch(() => undefined); // it is thrown below
  yield* readable.values({ preventCancel: true });
  const events = await recorded;
  yield* isLive ? events.filter(({ type }) => type === 'response_done') : events;
}

/** What is asked of a model, without what differs from one attempt to the next. */
function callOf(name: string, request: ModelRequest): LoggedCall {
  return { name, input: toPlain({ ...request, signal: undefined, tracing: undefined }) };
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
