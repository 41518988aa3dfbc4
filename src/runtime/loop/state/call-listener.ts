import { isRecord } from '../../../core/options.ts';

/** Calls a listener that must break nothing: if it throws, or answers a promise that rejects, that is a process warning. */
export function callListener(what: string, call: () => unknown): void {
  const warn = (error: unknown): void =>
    process.emitWarning(`A listener of ${what} failed: ${String(error)}`, 'SavestateWarning');
  try {
    const answer = call();
    if (isRecord(answer) && 'then' in answer) Promise.resolve(answer).catch(warn);
  } catch (error) {
    warn(error);
  }
}
