import { checkOptions, checkValue, filledString, having } from '../../core/options.ts';
import type { Session } from '../../manager/session/session.ts';
import { toPlain } from '../transcript/plain.ts';

/** What recordings are kept in: a session, or whatever has its `step`. */
export type StepSession = Pick<Session, 'step'>;

/** A part of a streamed answer, as far as it matters here. */
export type StreamPart = { readonly type: string; readonly error?: unknown };

/** A call that returns its answer whole. */
type GenerateResult = { readonly response?: object | undefined };

/** A call that returns its answer part by part. */
type StreamResult<Part> = { readonly stream: ReadableStream<Part> };

/** From these parts on a reader acts on the answer, so it must be recorded before they are seen. */
const ACTED_ON = new Set(['tool-call', 'finish']);

/** Records the calls of a model, of either provider version, as steps of a session. */
export class ModelRecorder {
  readonly #session: StepSession;
  readonly #name: string;

  constructor(session: StepSession, name: string) {
    this.#session = session;
    this.#name = name;
  }

  /** The recorded answer, or what the model says now. A failure is no answer: the next attempt asks again. */
  async generate<Result extends object>(params: object, doGenerate: () => PromiseLike<Result>): Promise<Result> {
    let live: Result | undefined;
    const ask = async (): Promise<Result> => {
      live = await doGenerate();
      return toPlain(withoutTransport(live));
    };
    const recorded = await this.#session.step(this.#name, ask, { input: fingerprint(params) });
    return live ?? recorded;
  }

  /**
   * The recorded parts, or those that arrive now. They are passed on at once, until one that a reader acts on: that one, and those
   * after it, when the whole answer is recorded.
   */
  stream<Part extends StreamPart, Result extends StreamResult<Part>>(
    params: object,
    doStream: () => PromiseLike<Result>,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      let live: LiveStream<Part> | undefined;
      const ask = async (): Promise<Part[]> => {
        const result = await doStream();
        live = new LiveStream(result.stream);
        resolve({ ...result, stream: live.output });
        return toPlain(await live.readAll());
      };
      const options = { input: fingerprint(params) };
      this.#session.step(`${this.#name}-stream`, ask, options).then(
        (parts) => (live === undefined ? resolve({ stream: streamOf(parts) } as Result) : live.end()),
        (error: unknown) => (live === undefined ? reject(error) : live.fail(error)),
      );
    });
  }
}

/** An answer that did not end as answers do; its reader sees what the model sent, so this is not thrown to it. */
class Unanswered extends Error {}

/** A stream that is read to its end, whoever reads along. */
class LiveStream<Part extends StreamPart> {
  readonly output: ReadableStream<Part>;
  readonly #reader: ReadableStreamDefaultReader<Part>;
  #controller: ReadableStreamDefaultController<Part> | undefined;
  readonly #held: Part[] = [];

  constructor(source: ReadableStream<Part>) {
    this.#reader = source.getReader();
    this.output = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: async (reason) => {
        this.#controller = undefined;
        await this.#reader.cancel(reason);
      },
    });
  }

  /** All parts; throws if the answer is none: cut off, given up by its reader, or an error. */
  async readAll(): Promise<Part[]> {
    const parts: Part[] = [];
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) break;
      parts.push(value);
      if (this.#held.length > 0 || ACTED_ON.has(value.type)) this.#held.push(value);
      else this.#controller?.enqueue(value);
    }
    const error = parts.find(({ type }) => type === 'error');
    if (error !== undefined) throw new Unanswered('The model answered with an error.', { cause: error.error });
    if (!parts.some(({ type }) => type === 'finish')) throw new Unanswered('The stream ended before the answer did.');
    return parts;
  }

  /** The answer is recorded. */
  end(): void {
    this.#end(this.#held);
  }

  /** It is not. Its reader sees what was sent, without calls of tools: no tool runs for an answer that nobody finds again. */
  fail(error: unknown): void {
    if (!(error instanceof Unanswered)) this.#controller?.error(error);
    else this.#end(this.#held.filter(({ type }) => type !== 'tool-call'));
  }

  #end(last: readonly Part[]): void {
    for (const part of last) this.#controller?.enqueue(part);
    this.#controller?.close();
  }
}

function streamOf<Part>(parts: readonly Part[]): ReadableStream<Part> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

/** What a call is found by: all that is asked, without what differs from one attempt to the next. */
function fingerprint(params: object): unknown {
  return toPlain({ ...params, abortSignal: undefined, headers: undefined });
}

/** Without the bodies and headers of HTTP: they say the same again, and who called. */
function withoutTransport<Result extends GenerateResult>(result: Result): Result {
  const { response, ...rest } = result;
  const kept = response === undefined ? undefined : { ...response, headers: undefined, body: undefined };
  return { ...rest, request: undefined, response: kept } as unknown as Result;
}

/** How model calls are recorded. */
export type RecordedOptions = {
  /** The name of the steps; default `model`. Give one to each of several models that may be asked the same in one session. */
  readonly name?: string;
};

type GenerateCall<Result> = { readonly doGenerate: () => PromiseLike<Result>; readonly params: object };
type StreamCall<Result> = { readonly doStream: () => PromiseLike<Result>; readonly params: object };

/** A middleware that records; both versions of the SDK take it. */
export type RecordingMiddleware = {
  readonly specificationVersion: 'v3';
  readonly wrapGenerate: <Result extends object>(call: GenerateCall<Result>) => Promise<Result>;
  readonly wrapStream: <Part extends StreamPart, Result extends { readonly stream: ReadableStream<Part> }>(
    call: StreamCall<Result>,
  ) => Promise<Result>;
};

/**
 * A middleware for `wrapLanguageModel`: calls are recorded as steps of the session, and those that it has recorded are not made again.
 * How recordings are used is the session's `mode`: `frozen` replays a run without a model.
 */
export function recorded(session: StepSession, options: RecordedOptions = {}): RecordingMiddleware {
  checkValue(session, having('step'), 'The session of recorded()');
  checkOptions(options, { name: filledString }, 'recorded()');
  const recorder = new ModelRecorder(session, options.name ?? 'model');
  return {
    specificationVersion: 'v3',
    wrapGenerate: ({ doGenerate, params }) => recorder.generate(params, doGenerate),
    wrapStream: ({ doStream, params }) => recorder.stream(params, doStream),
  };
}
