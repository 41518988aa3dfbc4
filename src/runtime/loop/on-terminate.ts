import {
  callback,
  checkOptions,
  checkValue,
  filledString,
  having,
  listOf,
  type OptionChecks,
} from '../../core/options.ts';
import { type AgentLoop, STOP, type StopOptions } from './agent-loop.ts';

/** What sends signals: `process`, or anything like it. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** How a loop is stopped by a signal. */
type TerminateOptions = StopOptions & {
  readonly signals?: readonly string[] | undefined;
  readonly onError?: ((error: unknown) => void) | undefined;
};

const TERMINATE: OptionChecks<TerminateOptions> = { ...STOP, signals: listOf(filledString), onError: callback };

/** Stops a loop, with a checkpoint, when its process is told to end; answers how to call that off. */
export function onTerminate(
  source: SignalSource,
  loop: Pick<AgentLoop, 'stop'>,
  options: TerminateOptions = {},
): () => void {
  checkValue(source, having('on', 'off'), 'The source of onTerminate()');
  checkValue(loop, having('stop'), 'The loop of onTerminate()');
  // Now, because nobody would hear of it when the signal comes.
  checkOptions(options, TERMINATE, 'onTerminate()');
  const { signals = ['SIGTERM', 'SIGINT'], onError = () => undefined, ...stop } = options;
  const end = (): void => void loop.stop(stop).catch(onError);
  for (const signal of signals) source.on(signal, end);
  return () => {
    for (const signal of signals) source.off(signal, end);
  };
}
