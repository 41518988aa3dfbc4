import { type AgentLoop, STOP_CHECKS, type StopOptions } from './agent-loop.ts';
import { checkFields, checkFunction, checkText, listOf } from './field-checks.ts';

/** What sends signals: `process`, or anything like it. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** How a loop is stopped by a signal. */
type TerminateOptions = StopOptions & {
  readonly signals?: readonly string[];
  readonly onError?: (error: unknown) => void;
};

/** Stops a loop, with a checkpoint, when its process is told to end; answers how to call that off. */
export function onTerminate(
  source: SignalSource,
  loop: Pick<AgentLoop, 'stop'>,
  options: TerminateOptions = {},
): () => void {
  checkFunction(source?.on, 'source.on');
  checkFunction(source?.off, 'source.off');
  checkFunction(loop?.stop, 'loop.stop');
  // Now, because nobody would hear of it when the signal comes.
  checkFields(options, 'options', { ...STOP_CHECKS, signals: listOf(checkText), onError: checkFunction });
  const { signals = ['SIGTERM', 'SIGINT'], onError = () => undefined, ...stop } = options;
  const end = (): void => void loop.stop(stop).catch(onError);
  for (const signal of signals) source.on(signal, end);
  return () => {
    for (const signal of signals) source.off(signal, end);
  };
}
