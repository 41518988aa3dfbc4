import type { AgentLoop, StopOptions } from './agent-loop.ts';

/** What sends signals: `process`, or anything like it. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** Stops a loop, with a checkpoint, when its process is told to end; answers how to call that off. */
export function onTerminate(
  source: SignalSource,
  loop: Pick<AgentLoop, 'stop'>,
  {
    signals = ['SIGTERM', 'SIGINT'],
    onError = () => undefined,
    ...stop
  }: StopOptions & { readonly signals?: readonly string[]; readonly onError?: (error: unknown) => void } = {},
): () => void {
  const end = (): void => void loop.stop(stop).catch(onError);
  for (const signal of signals) source.on(signal, end);
  return () => {
    for (const signal of signals) source.off(signal, end);
  };
}
