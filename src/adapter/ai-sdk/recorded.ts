import { checkOptions, checkValue, filledString, having } from '../../core/options.ts';
import { ModelRecorder, type StepSession, type StreamPart } from './model-recorder.ts';

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
